"""Options, progress, output and error handling that the commands share."""
