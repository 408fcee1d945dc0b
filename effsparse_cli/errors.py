"""The errors that reach a user: each says what, where, and what to try, and carries its exit code."""

from __future__ import annotations

from collections.abc import Mapping


class EffsparseError(Exception):
    """Anything we expected could go wrong. 2: wrong usage; 3: the file cannot be read, was refused, or has
    nothing to measure. `input_shapes` are shapes that would work, where the shapes of a model's inputs are what is
    missing."""

    exit_code = 3
    input_shapes: Mapping[str, tuple[int, ...]] = {}


class UsageError(EffsparseError):
    """Options or arguments that make no sense together or for this model."""

    exit_code = 2


class LoadError(EffsparseError):
    """The file cannot be read or has no graph."""


class RefusedError(LoadError):
    """The file would have to run code to be read, and the user did not say that it may."""


class NothingToMeasureError(EffsparseError):
    """The graph has no connections."""
