"""Parts of commands that are too large for the command's own module."""
