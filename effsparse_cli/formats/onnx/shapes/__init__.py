"""Shapes of inputs and of results: declared, assumed, inferred or suggested."""
