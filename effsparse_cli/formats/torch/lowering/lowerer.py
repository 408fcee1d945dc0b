"""Lower op calls one after another to the graph that they build. Calls that no model input reaches are evaluated, and
forms that an operator's lowering function does not support become Opaque."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.constants import index_maps
from effsparse_cli.formats.torch.constants.evaluate import BudgetedOperator, CannotEvaluateError, by_name, may_evaluate
from effsparse_cli.formats.torch.constants.fold import fold
from effsparse_cli.formats.torch.lowering.mixed_weights import as_mixed_weight, record_call
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import Folding, folding_of
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tensors import nonzero, very_negative
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result, Value
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import CallPath


class Lowerer:
    """`b` is the graph so far, `stored` the model's tensors, `call` the op call being lowered. `decided`: values that
    depend on the input decided which operators the traced model called."""

    def __init__(self, stored: StoredTensors, options: LoadOptions) -> None:
        self.b = Builder()
        self.call: CallPath = ()
        self.stored = stored
        self.options = options
        self.budget = stored.budget
        self.constants: dict[ConstantValue, int] = {}
        self.mixed_weights: dict[ConstantValue, ConstantValue] = {}
        self.decided = False

    def node(self, value: Arg) -> int:
        """Return the node of a value or number; a constant is added once."""
        if isinstance(value, LiveValue):
            return value.node
        if not isinstance(value, ConstantValue):
            return self.b.constant(bool(value != 0), ())
        if value not in self.constants:
            added = value.lower() if value.lower else self.b.constant(nonzero(value.tensor))
            self.constants[value] = added
        return self.constants[value]

    def weights(
        self, value: ConstantValue, arrange: index_maps.Arrange, op: str, builder: Builder | None = None
    ) -> list[int]:
        """Add one Weight for each stored tensor in a constant, with its elements in the order that `arrange` gives."""
        nodes = []
        for part in value.parts:
            layer = self.stored.layer(part, op)
            size = self.stored.tensors[part.stored].numel()
            moved = index_maps.move(part.index_map, arrange)
            view = index_maps.as_view(moved, size)
            nodes.append((builder or self.b).weight(layer, tuple(moved.shape), view, self.call))
        return nodes

    def apply(
        self, target: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], traced: Arg, pinned: bool
    ) -> Result:
        """Lower one call of the trace, or evaluate it if nothing live is among its operands. Calls that neither return
        nor change anything are assertions, which held when the model was traced."""
        if traced is None and not target._schema.is_mutable:
            return None
        named = by_name(target, args, kwargs)
        bound = [named.get(argument.name) for argument in target._schema.arguments if not argument.is_out]
        call = OpCall(self, target, bound, [] if traced is None else tree_flatten(traced)[0])
        operator = call.operator
        if not any(isinstance(value, LiveValue) for value in call.values()):
            constants = [value for value in call.values() if isinstance(value, ConstantValue)]
            # Inside a parametrization everything is arithmetic on the one weight, matrix products too.
            contracts = operator is not None and operator.contracts and "parametrizations" not in self.b.node_name
            deferred = (contracts and any(c.parts for c in constants)) or any(c.lower for c in constants)
            if may_evaluate(target, args, kwargs):
                with suppress(CannotEvaluateError):
                    return fold(
                        self.stored,
                        BudgetedOperator(target, self.budget),
                        (list(args), kwargs),
                        folding=_folding(call),
                        pinned=pinned,
                        lower=self._deferred(call) if deferred else None,
                        record=record_call(call, self.b.node_name),
                    )
            results = self.opaque(target, call.values(), call.results)
        else:
            results = self.lower(call)
        return results if isinstance(traced, list | tuple) else results[0] if results else None

    def lower(self, call: OpCall) -> list[Any]:
        """Lower an op call and return its results as values, Opaque if its form is not supported."""
        call = replace(call, args=self._with_mixed_weights(call))
        call = replace(call, args=list(map_aggregate(call.args, self._lowered)))
        lower = call.operator.lower if call.operator else None
        result = lower(call, *call.args) if lower else NotImplemented
        values = None if result is NotImplemented else self._values(result, call)
        return self.opaque(call.target, call.values(), call.results) if values is None else values

    def _with_mixed_weights(self, call: OpCall) -> list[Any]:
        """Turn mixed operands of a contraction into mixed weights: always at the position of the weight, elsewhere
        unless weights were contracted to compute the operand, because then it may be an activation."""
        if call.operator is None or not call.operator.uses_weights:
            return list(call.args)
        contraction = call.operator.contraction
        weight: Arg = None if contraction is None else call.args[contraction.weight]

        def convert(arg: Arg) -> Arg:
            if not (isinstance(arg, ConstantValue) and arg.mixed and arg.tensor.ndim > 1):
                return arg
            is_weight = contraction is not None and arg is weight and (contraction.spatial or arg.tensor.ndim == 2)
            return as_mixed_weight(self, arg) if arg.parts or arg.lower is None or is_weight else arg

        return list(map_aggregate(call.args, convert))

    def _lowered(self, value: Arg) -> Arg:
        """Lower a constant that weights were contracted to compute, so that lowering functions see a node."""
        if not isinstance(value, ConstantValue) or value.lower is None or value.parts:
            return value
        return LiveValue(self.node(value), value.tensor.dtype, very_negative(value.tensor))

    def _values(self, result: Result, call: OpCall) -> list[Any] | None:
        """Return what a lowering function returned as values, None if it does not have the traced shapes."""
        values: list[Any] = []
        results = result if isinstance(result, list) else [result]
        if len(results) != len(call.results):
            return None
        for value, traced in zip(results, call.results, strict=True):
            if isinstance(value, int) and isinstance(traced, torch.Tensor):
                value = LiveValue(value, traced.dtype)
            if isinstance(value, LiveValue) and self.b.shape(value.node) != tuple(traced.shape):
                return None
            if isinstance(value, LiveValue) and value.dtype != traced.dtype:
                value = replace(value, dtype=traced.dtype)
            values.append(value)
        if call.operator is not None and call.operator.folding in ("moves", "reshapes") and len(values) == 1:
            return [_with_blocked(values[0], call)]
        return values

    def opaque(self, target: object, values: Sequence[Value], results: Sequence[Any]) -> list[Any]:
        """Add an Opaque node for each result, which depends on all operands and on the weights among them."""
        label = str(target).removesuffix(".default")
        inputs: list[int] = []
        for value in values if results else ():
            if isinstance(value, ConstantValue) and value.mixed and value.tensor.ndim >= 2 and value.lower is None:
                value = as_mixed_weight(self, value)
            if isinstance(value, ConstantValue) and value.parts and value.tensor.ndim >= 2:
                inputs += self.weights(value, lambda elements: elements, label)
            else:
                inputs.append(self.node(value))
        return [
            LiveValue(self.b.opaque(label, inputs, r.shape), r.dtype) if isinstance(r, torch.Tensor) else r
            for r in results
        ]

    def _deferred(self, call: OpCall) -> Callable[[int], Callable[[], int]]:
        """Return for each result of an evaluated call the function that lowers it, once, when it is needed."""
        place, done = (self.b.node_name, self.call), dict[str, list[Any]]()

        def lower(position: int) -> int:
            if not done:
                outer = self.b.node_name, self.call
                self.b.node_name, self.call = place
                done["results"] = self.lower(call)
                self.b.node_name, self.call = outer
            return self.node(done["results"][position])

        return lambda position: lambda: lower(position)


def _folding(call: OpCall) -> Folding:
    """Return how constants pass the call. Padding with anything but zero adds elements that were not there."""
    operator = call.operator
    if operator is None or operator.folding is None or (operator.fill is not None and call.args[operator.fill]):
        return folding_of(call.target)
    return operator.folding


def _with_blocked(value: Arg, call: OpCall) -> Arg:
    """Move blocked positions as the call moves its operand."""
    operands = call.values()
    moved = operands[0] if len(operands) == 1 else None
    if not isinstance(moved, LiveValue) or moved.blocked is None or not isinstance(value, LiveValue):
        return value
    blocked = moved.blocked
    return replace(value, blocked=call.evaluate(lambda _: blocked))
