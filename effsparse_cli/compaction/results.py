"""The result of compaction: data that commands, reports and scripts read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators
    from effsparse_cli.graph.primitives import Bools, Shape


@dataclass(frozen=True)
class LayerChange:
    """The shape of one weight tensor before and after; `flops` are multiply-adds of the operators that use it."""

    name: str
    before: Shape
    after: Shape
    flops_before: int
    flops_after: int


@dataclass(frozen=True)
class Sums:
    """Bytes of the whole model, its multiply-adds for one input, and its latency in seconds."""

    bytes: int
    flops: int
    latency: float


@dataclass(frozen=True, kw_only=True)
class CompactResult:
    """`difference` is the largest difference between outputs before and after, `scale` the largest output.

    `unknown` are operators without a rule: their inputs and outputs keep all positions. `trials` of an ONNX model are
    its inputs and outputs, run by run, without operators that cannot be run (`unrunnable`). `kept` of a module has what
    is kept along each axis of the stored tensors that are smaller.
    """

    layers: tuple[LayerChange, ...]
    before: Sums
    after: Sums
    difference: float
    scale: float
    input_shapes: Mapping[str, Shape]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trials: Sequence[tuple[dict[str, Any], Sequence[Any]]] = field(default=(), repr=False)
    unrunnable: UnrunnableOperators | None = field(default=None, repr=False)
    kept: Mapping[str, Sequence[Bools]] = field(default_factory=dict, repr=False)

    @property
    def shrunk(self) -> bool:
        return any(layer.before != layer.after for layer in self.layers)
