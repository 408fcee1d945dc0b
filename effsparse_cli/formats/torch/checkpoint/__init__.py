"""Files that hold tensors and no graph become named tensors, as data: nothing in them runs."""
