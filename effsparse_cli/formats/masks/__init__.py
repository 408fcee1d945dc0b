"""Masks: the table of mask conventions, files of masks, and what counts as kept."""
