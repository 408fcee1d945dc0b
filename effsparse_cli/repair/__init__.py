"""Masks that mean what they say: dead connections removed or revived, and the function kept."""
