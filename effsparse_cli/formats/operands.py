"""Positions of the operands that repair needs to know, in the tables of torch and ONNX operators alike."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Norm:
    """The parameters of a norm with running statistics; `training` is the flag to ignore these."""

    scale: int = 1
    shift: int = 2
    mean: int = 3
    training: int | None = None


@dataclass(frozen=True)
class Lookup:
    """A stored table, and the indices of its rows."""

    table: int = 0
    indices: int = 1
