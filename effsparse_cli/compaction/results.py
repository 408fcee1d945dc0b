"""What compacting did: plain data that commands, reports and scripts read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effsparse_cli.graph.primitives import Shape

if TYPE_CHECKING:
    from effsparse_cli.folding.onnx.unknown import Apart


@dataclass(frozen=True)
class LayerChange:
    """One weight tensor, before and after; `flops` are multiply-adds of the operators that use it."""

    name: str
    before: Shape
    after: Shape
    flops_before: int
    flops_after: int


@dataclass(frozen=True)
class Sums:
    """Of the whole model: its bytes, its multiply-adds for one input, and how long that takes, in seconds."""

    bytes: int
    flops: int
    latency: float


@dataclass(frozen=True)
class Compaction:
    """`difference` is the largest between outputs before and after over all runs, `scale` the largest output.
    `unknown` are operators that have no rule: nothing was cut from what they touch. `trials` of an ONNX model are its
    inputs and outputs, run by run, without operators that cannot be run (`apart`)."""

    layers: tuple[LayerChange, ...]
    before: Sums
    after: Sums
    difference: float
    scale: float
    input_shapes: Mapping[str, Shape]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trials: Sequence[tuple[dict[str, Any], Sequence[Any]]] = field(default=(), repr=False)
    apart: Apart | None = field(default=None, repr=False)

    @property
    def shrunk(self) -> bool:
        return any(layer.before != layer.after for layer in self.layers)
