"""The commands of `fedslim`: one module for each command or group."""
