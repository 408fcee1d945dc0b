"""Two models compared."""
