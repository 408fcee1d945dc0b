"""Shared by several commands: output, progress, the project file, the list of commands."""
