"""Measure a model during training: one trace that is reused, and callbacks that log sparsity."""
