"""Measuring a model while it is trained: one trace, read again and again, and callbacks that log what it says."""
