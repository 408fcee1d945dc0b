"""Pickles read as data: a small unpickler that never imports or calls anything that a file names."""
