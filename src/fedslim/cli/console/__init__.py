"""What the commands share: options, progress, output, and errors as exit codes."""
