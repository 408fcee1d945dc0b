"""An op call: one operator applied to its inputs, as a lowering function sees it. It gives access to inputs, attributes
and the builder, and to what most lowering functions need: a node for any input, or the numbers of a constant one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, SequenceValue, Value
from effsparse_cli.formats.onnx.operators import Extent, NotLoweredError, Operator, find_operator
from effsparse_cli.formats.onnx.proto import attribute, call_name
from effsparse_cli.formats.onnx.tensors.stored import Array, nonzero
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Bools, CallPath, Shape

if TYPE_CHECKING:
    from effsparse_cli.formats.onnx.lowering.walk import Scope


@dataclass(eq=False)
class OpCall:
    scope: Scope
    node: NodeProto
    inputs: list[Value | None]
    position: int = 0

    @property
    def b(self) -> Builder:
        return self.scope.builder

    @property
    def path(self) -> CallPath:
        return (*self.scope.calls, call_name(self.node))

    @property
    def operator(self) -> Operator:
        operator = find_operator(self.node)
        assert operator is not None
        return operator

    @property
    def keeps_zero(self) -> bool:
        return bool(self.operator.keeps_zero)

    @property
    def opset(self) -> int:
        return self.scope.opset(self.node.domain)

    @property
    def norms_cut(self) -> bool:
        return self.scope.state.options.norms_cut

    def attr(self, name: str, default: Any = None) -> Any:
        return attribute(self.node, name, default)

    def get(self, i: int) -> Value | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def operands(self) -> list[ConstantValue]:
        """Return the constant inputs, without those that give only a type or a shape."""
        data = (value for i, value in enumerate(self.inputs) if i not in self.operator.no_data)
        return [value for value in data if isinstance(value, ConstantValue)]

    def has(self, i: int) -> bool:
        return self.get(i) is not None

    def value(self, i: int) -> LiveValue | ConstantValue:
        value = self.get(i)
        if value is None or isinstance(value, SequenceValue):
            raise NotLoweredError(f"input {i} is {'missing' if value is None else 'a sequence'}")
        return value

    def items(self, i: int) -> SequenceValue:
        value = self.get(i)
        if not isinstance(value, SequenceValue):
            raise NotLoweredError("the length of the sequence is not known")
        return value

    def x(self, i: int = 0) -> int:
        """Return the node of input i; a constant becomes a Constant node."""
        return self.node_of(self.value(i))

    def xs(self) -> list[int]:
        """Return the nodes of all inputs, of which there must be at least one."""
        if not any(value is not None for value in self.inputs):
            raise NotLoweredError("it has no inputs")
        return [self.x(i) for i in range(len(self.inputs)) if self.has(i)]

    def shape(self, i: int = 0) -> Shape:
        return self.shape_of(self.value(i))

    def constant(self, i: int) -> ConstantValue | None:
        value = self.get(i)
        return value if isinstance(value, ConstantValue) else None

    def is_live(self, i: int) -> bool:
        return isinstance(self.get(i), LiveValue)

    def array(self, i: int) -> Array:
        value = self.value(i)
        if isinstance(value, LiveValue):
            raise NotLoweredError(f"input {i} is computed from the model's input")
        return value.array

    def ints(self, i: int) -> list[int]:
        return [int(n) for n in self.array(i).reshape(-1)]

    def ints_from(self, i: int, name: str) -> list[int] | None:
        """Return a list of integers that is an input, or an attribute in older opsets."""
        if self.has(i):
            return self.ints(i)
        found = self.attr(name)
        return None if found is None else [int(n) for n in np.atleast_1d(found)]

    def few_ints(self, i: int) -> list[int]:
        """Return the numbers of input i, if they are known and few."""
        value = self.constant(i)
        return [] if value is None or math.prod(value.shape) > 1 << 16 else self.ints(i)

    def nonzero(self, i: int) -> Bools | None:
        """Return where input i is not zero; None if it is absent."""
        return nonzero(self.array(i)) if self.has(i) else None

    def input_shapes(self) -> list[Shape]:
        return [self.shape_of(v) for v in self.inputs if v is not None and not isinstance(v, SequenceValue)]

    def result_extent(self, broadcast: bool = False) -> Extent:
        """Return the sizes of the largest result before anything is computed. Numbers that are computed from the
        model's input count as 1; values that make no sense are left to the operator itself.

        Without an `extent` function, an operator's result is as large as its largest input, or (`broadcast`) as its
        inputs together.
        """
        try:
            if self.operator.extent is not None:
                return [max(int(n), 0) for n in self.operator.extent(self)]
            shapes = self.input_shapes()
            return np.broadcast_shapes(*shapes) if broadcast else max(shapes, key=math.prod, default=())
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError):
            return ()

    def node_of(self, value: Value) -> int:
        if isinstance(value, SequenceValue):
            raise NotLoweredError("expected a tensor, found a sequence")
        if isinstance(value, ConstantValue):
            return self.b.constant(nonzero(value.array))
        # A shifted zero stands for the zero point, which is an ordinary number to operators that are not quantized.
        return self.b.join(value.node, keeps_zero=False) if value.shifted else value.node

    def shape_of(self, value: LiveValue | ConstantValue) -> Shape:
        return value.shape if isinstance(value, ConstantValue) else self.b.shape(value.node)

    def expected(self) -> Shape:
        """Guess the shape of the first output, if it cannot be computed."""
        return self.scope.state.guesses.shape(self.node.output[0], self.shape())
