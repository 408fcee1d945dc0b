"""Checkpoints: files of tensors without a graph, read as data. Nothing in them is executed."""
