"""Masks or weights into files: written beside the target, then renamed, never over an input."""
