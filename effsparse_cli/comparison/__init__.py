"""Two models in, what changed from one to the other out."""
