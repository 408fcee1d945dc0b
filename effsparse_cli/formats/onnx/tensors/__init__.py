"""Stored tensors: where they are, how they are read, what their layers are called, and how masks change them."""
