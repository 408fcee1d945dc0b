"""Mending: a mask is brought to a target, to its budget, or back to a connected network."""
