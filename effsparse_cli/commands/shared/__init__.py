"""What several commands use: output, progress, the project file, the overview of commands."""
