"""What carries messages. No decisions in here."""
