"""Changes to the model: to a standard form before compaction, and to smaller tensors after it."""
