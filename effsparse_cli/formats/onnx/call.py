"""One use of one operator, as a lowering function sees it: inputs, attributes, the builder, and the few things
that most lowerings need (a node for any input, the numbers of a constant one, attributes that became inputs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, helper

from effsparse_cli.formats.onnx.stored import Array, nonzero
from effsparse_cli.formats.onnx.table import NotLoweredError
from effsparse_cli.formats.onnx.values import Items, Known, Live, Value
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Bools, Shape

if TYPE_CHECKING:
    from effsparse_cli.formats.onnx.walk import Scope


@dataclass(eq=False)
class Call:
    scope: Scope
    node: NodeProto
    inputs: list[Value | None]
    position: int = 0

    @property
    def b(self) -> Builder:
        return self.scope.builder

    @property
    def opset(self) -> int:
        return self.scope.opset(self.node.domain)

    @property
    def norms_cut(self) -> bool:
        return self.scope.reading.options.norms_cut

    # Attributes

    def attr(self, name: str, default: Any = None) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                if isinstance(value, bytes):
                    return value.decode("utf-8", "replace")
                return [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value
        return default

    # Inputs

    def get(self, i: int) -> Value | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def operands(self) -> list[Known]:
        """Constants among the inputs whose values matter; of CastLike's second one only the type does."""
        inputs = self.inputs[:1] if self.node.op_type == "CastLike" else self.inputs
        return [value for value in inputs if isinstance(value, Known)]

    def has(self, i: int) -> bool:
        return self.get(i) is not None

    def value(self, i: int) -> Live | Known:
        value = self.get(i)
        if value is None or isinstance(value, Items):
            raise NotLoweredError(f"input {i} is {'missing' if value is None else 'a sequence'}")
        return value

    def items(self, i: int) -> Items:
        value = self.get(i)
        if not isinstance(value, Items):
            raise NotLoweredError("the length of the sequence is not known")
        return value

    def x(self, i: int = 0) -> int:
        """The node of input i; a constant is placed as one."""
        return self.node_of(self.value(i))

    def xs(self) -> list[int]:
        """The nodes of all inputs, of which there is at least one."""
        if not any(value is not None for value in self.inputs):
            raise NotLoweredError("it has no inputs")
        return [self.x(i) for i in range(len(self.inputs)) if self.has(i)]

    def shape(self, i: int = 0) -> Shape:
        return self.shape_of(self.value(i))

    def known(self, i: int) -> Known | None:
        value = self.get(i)
        return value if isinstance(value, Known) else None

    def is_live(self, i: int) -> bool:
        return isinstance(self.get(i), Live)

    def array(self, i: int) -> Array:
        value = self.value(i)
        if isinstance(value, Live):
            raise NotLoweredError(f"input {i} is computed from the model's input")
        return value.array

    def ints(self, i: int) -> list[int]:
        return [int(n) for n in self.array(i).reshape(-1)]

    def ints_from(self, i: int, attribute: str) -> list[int] | None:
        """A list that was an attribute in older opsets and is an input in newer ones."""
        if self.has(i):
            return self.ints(i)
        found = self.attr(attribute)
        return None if found is None else [int(n) for n in np.atleast_1d(found)]

    def nonzero(self, i: int) -> Bools | None:
        """For biases and scales: where input i is not zero; None if it is absent."""
        return nonzero(self.array(i)) if self.has(i) else None

    # Values and nodes

    def node_of(self, value: Value) -> int:
        if isinstance(value, Items):
            raise NotLoweredError("a sequence stands where a tensor is needed")
        if isinstance(value, Known):
            return self.b.constant(nonzero(value.array))
        # A shifted zero is the zero point, which to anything but a quantised operator is just a number.
        return self.b.join(value.node, keeps_zero=False) if value.shifted else value.node

    def shape_of(self, value: Live | Known) -> Shape:
        return value.shape if isinstance(value, Known) else self.b.shape(value.node)

    def expected(self) -> Shape:
        """The best guess at the shape of the first output, where it cannot be computed."""
        return self.scope.reading.guesses.shape(self.node.output[0], self.shape())
