"""Measure a model during training, log its sparsity with callbacks, and hold its pruned weights at zero."""
