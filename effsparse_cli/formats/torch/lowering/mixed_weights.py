"""Weights that are computed from stored tensors in ways that mix their elements: weight standardization, weight norm
and spectral norm, products of weights. A constant and how it was computed enter; the same constant leaves as a mixed
weight, with the graph that says which stored elements help to compute which of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.fx.node import map_aggregate

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.constants import index_maps as ghosts
from effsparse_cli.formats.torch.values import Arg, Const, Leaf, Live, Made, Recipe, Record, nonzero
from effsparse_cli.graph.graph import Graph

if TYPE_CHECKING:
    from effsparse_cli.formats.torch.lowering.lowerer import Lowering

MOST_STEPS = 100_000


def record_of(call: Any, operator: Any, place: str) -> Record | None:
    """What was done, if stored tensors enter it."""
    if not any(isinstance(value, Const) and value.recipe for value in call.values()):
        return None
    args = map_aggregate(call.args, lambda v: v.recipe or v if isinstance(v, Const) else v)
    return Record(replace(call, args=list(args)), operator, place)


def as_mixed_weight(low: Lowering, const: Const) -> Const:
    """The constant as a weight of its own, made of the stored weights that were mixed into it."""
    if const.recipe is None:
        return const
    if const not in low.mixed_weights:
        parts = low.stored.weights_in(const)
        making = _replay(low, const.recipe, {p.stored for p in parts})
        low.mixed_weights[const] = low.stored.mix(const, making, parts)
    return low.mixed_weights[const]


def _replay(low: Lowering, recipe: Recipe, weights: set[str]) -> Graph:
    """The computation as a graph from stored weights to the constant. Other stored tensors are constants in it."""
    inner = type(low)(low.stored, low.options)
    sources: dict[str, int] = {}
    done: dict[object, list[Any]] = {}

    def leaf(given: Leaf) -> int:
        tensor = low.stored.tensors[given.stored]
        if given.stored not in weights:
            return inner.b.constant(nonzero(tensor).reshape(-1)[ghosts.positions(given.ghost).numpy()])
        if given.stored not in sources:
            sources[given.stored] = inner.b.source(low.stored.label(given.stored), tensor.shape)
        whole = sources[given.stored]
        if ghosts.is_whole(given.ghost, tensor.numel()):
            return inner.b.reshape(whole, given.ghost.shape)
        return inner.b.gather(whole, ghosts.positions(given.ghost).numpy())

    def value(arg: Arg) -> Arg:
        if isinstance(arg, Leaf):
            return Live(leaf(arg), low.stored.tensors[arg.stored].dtype)
        if isinstance(arg, Made):
            made = done[arg.record][arg.position]
            return made if isinstance(made, Live) else Live(inner.node(made), made.tensor.dtype)
        return Const(arg.tensor, arg.now) if isinstance(arg, Const) else arg

    for record in _in_order(recipe):
        inner.b.node_name = record.place
        args = list(map_aggregate(record.call.args, value))
        done[record] = inner.run(replace(record.call, args=args), record.operator)
    return inner.b.finish([value(recipe).node])


def _in_order(recipe: Recipe) -> list[Record]:
    """The recorded operators that lead to it, each after those that it needs."""
    order: dict[Record, None] = {}
    waiting: list[tuple[Recipe, bool]] = [(recipe, False)]
    opened: set[Record] = set()
    while waiting:
        given, ready = waiting.pop()
        if isinstance(given, Leaf) or given.record in order:
            continue
        if ready:
            order[given.record] = None
            continue
        if len(opened) > MOST_STEPS:
            raise LoadError(f"a weight is computed in more than {MOST_STEPS} steps")
        opened.add(given.record)
        waiting.append((given, True))
        map_aggregate(given.record.call.args, lambda v: waiting.append((v, False)) if isinstance(v, Leaf | Made) else v)
    return list(order)
