"""The graph under construction and what the handlers under `ops/` need: nodes for values, weights for
constants, and the operator at hand. What no input reaches is evaluated; an operator whose form the table does
not know becomes Opaque."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch.fx.node import map_aggregate

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.constants import index_maps as ghosts
from effsparse_cli.formats.torch.constants.evaluate import BudgetedOperator, CannotEvaluateError, may_evaluate
from effsparse_cli.formats.torch.constants.fold import fold
from effsparse_cli.formats.torch.lowering.mixed_weights import as_mixed_weight, record_of
from effsparse_cli.formats.torch.lowering.op_call import Call, bind
from effsparse_cli.formats.torch.operators import Folding, Operator, find, folding_of
from effsparse_cli.formats.torch.stored import Stored
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered, Value, fixed, nonzero, very_negative
from effsparse_cli.graph.builder import Builder


class Lowering:
    """`b` is the graph so far, `stored` the model's tensors, `call` the operator that is being lowered,
    `steered` whether values that depend on the input decided what the traced model did."""

    def __init__(self, stored: Stored, options: LoadOptions) -> None:
        self.b = Builder()
        self.stored = stored
        self.options = options
        self.budget = stored.budget
        self.constants: dict[Const, int] = {}
        self.mixed_weights: dict[Const, Const] = {}
        self.steered = False
        self.call: Call

    def node(self, value: Arg) -> int:
        """A value as a node; a constant enters once."""
        if isinstance(value, Live):
            return value.node
        if not isinstance(value, Const):
            return self.b.constant(bool(value != 0), ())
        if value not in self.constants:
            entered = value.emit() if value.emit else self.b.constant(nonzero(value.tensor))
            self.constants[value] = entered
        return self.constants[value]

    def weights(self, const: Const, arrange: ghosts.Arrange, op: str, b: Builder | None = None) -> list[int]:
        """The stored tensors that a constant is made of, one node each, as `arrange` arranges its elements."""
        builder = b or self.b
        nodes = []
        for part in const.parts:
            layer = self.stored.layer(part, op)
            size = self.stored.tensors[part.stored].numel()
            moved = ghosts.move(part.ghost, arrange)
            nodes.append(builder.weight(layer, tuple(moved.shape), ghosts.view(moved, size)))
        return nodes

    def literal(self, const: Const) -> Const | None:
        """What of a constant no stored tensor accounts for, None if nothing."""
        if not const.parts:
            return const
        if any(p.ghost.is_meta for p in const.parts):
            return None
        known = torch.stack([p.ghost >= 0 for p in const.parts]).any(0)
        rest = ~known & torch.from_numpy(nonzero(const.tensor))
        return Const(rest, lambda: rest) if bool(rest.any()) else None

    def by_shape_only(self) -> Const:
        """The result of the operator at hand where live operands only lend it their shape or type."""

        def blank(value: Value) -> torch.Tensor:
            if isinstance(value, Const):
                return value.tensor
            # One element for all, so that a large activation takes no memory.
            return torch.zeros((), dtype=value.dtype, device=self.stored.device).expand(self.b.shape(value.node))

        return fixed(self.call.evaluate(blank))

    def apply(self, target: Arg, args: Sequence[Any], kwargs: dict[str, Any], traced: Arg, pinned: bool) -> Lowered:
        """One call of the trace: folded if nothing live enters it, lowered otherwise. Calls that neither
        give nor change anything are assertions, which held when the model was traced."""
        if traced is None and not target._schema.is_mutable:
            return None
        operator = find(target)
        call = bind(target, args, kwargs, traced, self.budget)
        if not any(isinstance(value, Live) for value in call.values()):
            given = [value for value in call.values() if isinstance(value, Const)]
            # Inside a parametrization everything is arithmetic on the one weight, products of matrices too.
            contracts = operator is not None and operator.contracts and "parametrizations" not in self.b.node_name
            deferred = (contracts and any(c.parts for c in given)) or any(c.emit for c in given)
            emit = self._deferred(call, operator) if deferred else None
            if may_evaluate(target, args, kwargs):
                with suppress(CannotEvaluateError):
                    record, run = record_of(call, operator, self.b.node_name), BudgetedOperator(target, self.budget)
                    return fold(self.stored, run, _folding(call, operator), args, kwargs, pinned, emit, record)
            values = self.opaque(target, call.values(), call.results)
        else:
            values = self.run(call, operator)
        return values if isinstance(traced, list | tuple) else values[0] if values else None

    def run(self, call: Call, operator: Operator | None) -> list[Any]:
        """Lower one operator: its results as values, Opaque where its form is unknown."""
        outer = getattr(self, "call", call)
        call = replace(call, args=self._weighed(call, operator))
        call = replace(call, args=list(map_aggregate(call.args, self._entered)))
        self.call = call
        made = operator.lower(self, *call.args) if operator and operator.lower else NotImplemented
        self.call = outer
        results = None if made is NotImplemented else self._values(made, call, operator)
        return self.opaque(call.target, call.values(), call.results) if results is None else results

    def _weighed(self, call: Call, operator: Operator | None) -> list[Any]:
        """A mixed operand of a contraction is a weight too: always where a linear layer or convolution has its weight,
        or a matrix stands on the right of a product; elsewhere unless weights were contracted for it, for then it may
        be an activation."""
        if operator is None or not operator.uses_weights:
            return list(call.args)
        operands = operator.operands
        right: Arg = None if operands is None else call.args[operands.weight]

        def weighed(arg: Arg) -> Arg:
            if not (isinstance(arg, Const) and arg.mixed and arg.tensor.ndim > 1):
                return arg
            weight = operands is not None and arg is right and (operands.spatial or arg.tensor.ndim == 2)
            return as_mixed_weight(self, arg) if arg.parts or arg.emit is None or weight else arg

        return list(map_aggregate(call.args, weighed))

    def _entered(self, value: Arg) -> Lowered:
        """A constant that weights were contracted for is lowered too, so handlers see it as a node."""
        if not isinstance(value, Const) or value.emit is None or value.parts:
            return value
        return Live(self.node(value), value.tensor.dtype, very_negative(value.tensor))

    def _values(self, made: Arg, call: Call, operator: Operator | None) -> list[Any] | None:
        values: list[Any] = []
        made = made if isinstance(made, list) else [made]
        if len(made) != len(call.results):
            return None
        for value, result in zip(made, call.results, strict=True):
            if isinstance(value, int) and isinstance(result, torch.Tensor):
                value = Live(value, result.dtype)
            if isinstance(value, Live) and self.b.shape(value.node) != tuple(result.shape):
                return None
            if isinstance(value, Live) and value.dtype != result.dtype:
                value = replace(value, dtype=result.dtype)
            values.append(value)
        if operator is not None and operator.folding in ("moves", "reshapes") and len(values) == 1:
            return [_carry_blocked(values[0], call)]
        return values

    def opaque(self, target: object, values: Sequence[Value], results: Sequence[Any]) -> list[Any]:
        """For each result a node that depends on everything, the weights among the operands included."""
        label = str(target).removesuffix(".default")
        inputs: list[int] = []
        for value in values if results else ():
            if isinstance(value, Const) and value.mixed and value.tensor.ndim >= 2 and value.emit is None:
                value = as_mixed_weight(self, value)
            if isinstance(value, Const) and value.parts and value.tensor.ndim >= 2:
                inputs += self.weights(value, lambda ghost: ghost, label)
            else:
                inputs.append(self.node(value))
        return [
            Live(self.b.opaque(label, inputs, r.shape), r.dtype) if isinstance(r, torch.Tensor) else r for r in results
        ]

    def _deferred(self, call: Call, operator: Operator | None) -> Callable[[int], Callable[[], int]]:
        """For each result of a folded call: what lowers it after all, once, when it enters the graph."""
        place, made = self.b.node_name, dict[str, list[Any]]()

        def enter(position: int) -> int:
            if not made:
                outer, self.b.node_name = self.b.node_name, place
                made["results"] = self.run(call, operator)
                self.b.node_name = outer
            return self.node(made["results"][position])

        return lambda position: lambda: enter(position)


def _folding(call: Call, operator: Operator | None) -> Folding:
    """How a constant passes the call. Padding with anything but zero adds elements that were not there."""
    if operator is None or operator.folding is None or (operator.fill is not None and call.args[operator.fill]):
        return folding_of(call.target)
    return operator.folding


def _carry_blocked(value: Arg, call: Call) -> Lowered:
    given = call.values()
    if len(given) != 1 or not isinstance(given[0], Live) or given[0].blocked is None or not isinstance(value, Live):
        return value
    blocked = given[0].blocked
    return Live(value.node, value.dtype, call.evaluate(lambda _: blocked))
