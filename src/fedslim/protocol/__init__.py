"""The protocol between server and members: messages, sessions, variants. No sockets, clocks or entropy in here."""
