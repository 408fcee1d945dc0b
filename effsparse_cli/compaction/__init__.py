"""Channels and neurons that nothing uses, cut out of the tensors: a smaller model with the same outputs."""
