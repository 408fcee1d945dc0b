"""Errors shown to the user. Messages say what is wrong, where, and what to try; classes define the exit code."""

from __future__ import annotations

from collections.abc import Mapping


class EffsparseError(Exception):
    """Base class of all expected errors. Exit code 1: a target was missed; 2: usage error; 3: the file cannot be
    read, was refused, or has nothing to measure. `input_shapes` suggests shapes if those of a
    model's inputs are missing."""

    exit_code = 3
    input_shapes: Mapping[str, tuple[int, ...]] = {}


class UsageError(EffsparseError):
    """Options or arguments contradict each other or do not fit the model."""

    exit_code = 2


class WriteError(UsageError):
    """A file cannot be written, for example because the disk is full."""


class TargetError(EffsparseError):
    """A target is out of reach, and the closest result was not asked for."""

    exit_code = 1


class TrainingError(EffsparseError):
    """Training failed, for example because the loss is not a number."""

    exit_code = 1


class SetupError(EffsparseError):
    """The data or the model of a study cannot be used, which stops all of its tasks."""


class LoadError(EffsparseError):
    """The file cannot be read or has no graph."""


class RefusedError(LoadError):
    """Reading the file would run code, and the user did not allow that."""


class NothingToMeasureError(EffsparseError):
    """The graph has no connections."""


def first_line(error: BaseException, limit: int = 300) -> str:
    """Return the first line of an error's message, or the name of its type if it has none."""
    lines = (line.strip() for line in str(error).splitlines() if line.strip())
    return next(lines, type(error).__name__)[:limit]


def describe_error(error: BaseException, limit: int = 300) -> str:
    """Return the type of an error and the first line of its message."""
    line, name = first_line(error, limit), type(error).__name__
    return name if line == name else f"{name}: {line}"
