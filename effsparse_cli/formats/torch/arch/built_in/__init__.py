"""Models built in by name: those of the paper and a few common ones."""
