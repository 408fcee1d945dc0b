"""Compare two models layer by layer."""
