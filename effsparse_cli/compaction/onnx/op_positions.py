"""An op call as the rules of compaction see it: the positions of its inputs, and the shapes of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from effsparse_cli.compaction.positions import Array, Facts, Value
from effsparse_cli.formats.onnx.operators import Operator
from effsparse_cli.formats.onnx.ops import find_operator

Shape = tuple[int, ...]


class NoRuleError(Exception):
    """The operator as this model uses it has no rule."""


@dataclass(frozen=True, eq=False)
class OpPositions:
    """One op call: its inputs (None: left out), their types (None: not a tensor), and the shapes of its outputs."""

    node: NodeProto
    inputs: Sequence[Value | None]
    kinds: Sequence[np.dtype[Any] | None]
    shapes: Sequence[Shape | None]
    facts: Facts
    opset: int

    @property
    def operator(self) -> Operator:
        operator = find_operator(self.node)
        if operator is None:
            raise NoRuleError
        return operator

    def attr(self, name: str, default: Any = None) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def get(self, i: int) -> Value | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def x(self, i: int = 0) -> Value:
        value = self.get(i)
        if value is None:
            raise NoRuleError
        return value

    @property
    def given(self) -> list[Value]:
        return [value for value in self.inputs if value is not None]

    @property
    def shape(self) -> Shape:
        shape = self.shapes[0]
        if shape is None:
            raise NoRuleError
        return shape

    def setting(self, i: int, attribute: str = "") -> Array | None:
        """A constant input that says how to go about it, once an attribute; None if it is not given. It stays whole."""
        value = self.get(i)
        if value is None:
            found = self.attr(attribute) if attribute else None
            return None if found is None else np.atleast_1d(np.asarray(found))
        self.facts.need(*value.axes)
        if value.array is None:
            raise NoRuleError
        return value.array

    def rest(self, start: int) -> None:
        """Inputs from here on say how to go about it, whether constant or not, and stay whole."""
        for value in self.inputs[start:]:
            if value is not None:
                self.facts.need(*value.axes)
