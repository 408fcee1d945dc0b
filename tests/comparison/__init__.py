"""Comparisons of two models."""
