"""Pruning: scores, quotas and a target in, masks out."""
