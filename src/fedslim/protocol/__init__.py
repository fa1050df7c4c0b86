"""What server and members say to each other, and what they do about it. No sockets, clocks or entropy in here."""
