"""An op call as the rules of compaction see it: the positions of its inputs, and the shapes of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto

from effsparse_cli.compaction.positions import Array, Ids, PositionFacts, ValuePositions
from effsparse_cli.formats.onnx.operators import Operator
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute

Shape = tuple[int, ...]


class NoRuleError(Exception):
    """No rule covers this op call, so all of its positions stay."""


@dataclass(frozen=True, eq=False)
class OpPositions:
    """One op call: its inputs (None: left out), their types (None: not a tensor), and the shapes of its outputs."""

    node: NodeProto
    inputs: Sequence[ValuePositions | None]
    kinds: Sequence[np.dtype[Any] | None]
    shapes: Sequence[Shape | None]
    facts: PositionFacts
    opset: int

    @property
    def operator(self) -> Operator:
        operator = find_operator(self.node)
        if operator is None:
            raise NoRuleError
        return operator

    def attr(self, name: str, default: Any = None) -> Any:
        return attribute(self.node, name, default)

    def get(self, i: int) -> ValuePositions | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def x(self, i: int = 0) -> ValuePositions:
        value = self.get(i)
        if value is None:
            raise NoRuleError
        return value

    @property
    def given(self) -> list[ValuePositions]:
        return [value for value in self.inputs if value is not None]

    @property
    def shape(self) -> Shape:
        shape = self.shapes[0]
        if shape is None:
            raise NoRuleError
        return shape

    def parameter(self, i: int, name: str = "") -> Array | None:
        """Return the numbers of a parameter: a constant input, or an attribute in older opsets. None if it is absent.
        All positions of the input stay."""
        value = self.get(i)
        if value is None:
            found = self.attr(name) if name else None
            return None if found is None else np.atleast_1d(np.asarray(found))
        self.facts.need(*value.axes)
        if value.array is None:
            raise NoRuleError
        return value.array

    def keep_inputs(self, start: int) -> None:
        """Keep all positions of the inputs from `start` on."""
        for value in self.inputs[start:]:
            if value is not None:
                self.facts.need(*value.axes)

    def never_zero(self, axes: tuple[Ids, ...]) -> ValuePositions:
        """Return a value of which no position is known to be always zero."""
        return ValuePositions(axes, tuple(np.zeros(len(ids), bool) for ids in axes))
