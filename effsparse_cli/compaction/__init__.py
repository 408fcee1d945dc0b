"""Removes channels and neurons that nothing uses: a smaller model with the same outputs."""
