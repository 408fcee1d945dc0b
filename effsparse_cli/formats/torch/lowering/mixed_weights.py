"""Mixed weights: weights computed from stored tensors in ways that mix their elements, such as weight standardization,
weight norm, spectral norm and products of weights. A constant becomes a separate weight, with the graph that tells
which stored elements contribute to which of its elements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.fx.node import map_aggregate

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.constants import index_maps
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.tensors import nonzero
from effsparse_cli.formats.torch.values import Arg, ConstantValue, Leaf, LiveValue, Made, Recipe, Record
from effsparse_cli.graph.graph import Graph

if TYPE_CHECKING:
    from effsparse_cli.formats.torch.lowering.lowerer import Lowerer

MOST_STEPS = 100_000


def record_call(call: OpCall, place: str) -> Record | None:
    """Record an evaluated call if stored tensors are among what its operands were computed from."""
    if not any(isinstance(value, ConstantValue) and value.recipe for value in call.values()):
        return None
    args = map_aggregate(call.args, lambda v: v.recipe or v if isinstance(v, ConstantValue) else v)
    return Record(replace(call, args=list(args)), place)


def as_mixed_weight(lowerer: Lowerer, value: ConstantValue) -> ConstantValue:
    """Return the constant as a mixed weight of the stored weights in it."""
    if value.recipe is None:
        return value
    if value not in lowerer.mixed_weights:
        parts = lowerer.stored.weights_in(value)
        graph = _replay(lowerer, value.recipe, {p.stored for p in parts})
        lowerer.mixed_weights[value] = lowerer.stored.mix(value, graph, parts)
    return lowerer.mixed_weights[value]


def _replay(lowerer: Lowerer, recipe: Recipe, weights: set[str]) -> Graph:
    """Lower the computation to a graph from stored weights to the constant, with other stored tensors as constants."""
    inner = type(lowerer)(lowerer.stored, lowerer.options)
    sources: dict[str, int] = {}
    done: dict[object, list[Any]] = {}

    def add_leaf(leaf: Leaf) -> int:
        tensor, index_map = lowerer.stored.tensors[leaf.stored], leaf.index_map
        if leaf.stored not in weights:
            return inner.b.constant(nonzero(tensor).reshape(-1)[index_maps.to_positions(index_map).numpy()])
        if leaf.stored not in sources:
            sources[leaf.stored] = inner.b.source(lowerer.stored.label(leaf.stored), tensor.shape)
        source = sources[leaf.stored]
        if index_maps.is_whole(index_map, tensor.numel()):
            return inner.b.reshape(source, index_map.shape)
        return inner.b.gather(source, index_maps.to_positions(index_map).numpy())

    def to_value(arg: Arg) -> Arg:
        if isinstance(arg, Leaf):
            return LiveValue(add_leaf(arg), lowerer.stored.tensors[arg.stored].dtype)
        if isinstance(arg, Made):
            made = done[arg.record][arg.position]
            return made if isinstance(made, LiveValue) else LiveValue(inner.node(made), made.tensor.dtype)
        return ConstantValue(arg.tensor, arg.compute) if isinstance(arg, ConstantValue) else arg

    for record in _in_order(recipe):
        inner.b.node_name = record.place
        args = list(map_aggregate(record.call.args, to_value))
        done[record] = inner.lower(replace(record.call, lowerer=inner, args=args))
    return inner.b.finish([to_value(recipe).node])


def _in_order(recipe: Recipe) -> list[Record]:
    """Return the recorded calls that a recipe needs, each after those that it depends on."""
    order: dict[Record, None] = {}
    waiting: list[tuple[Recipe, bool]] = [(recipe, False)]
    opened: set[Record] = set()
    while waiting:
        step, ready = waiting.pop()
        if isinstance(step, Leaf) or step.record in order:
            continue
        if ready:
            order[step.record] = None
            continue
        if len(opened) > MOST_STEPS:
            raise LoadError(f"a weight is computed in more than {MOST_STEPS} steps")
        opened.add(step.record)
        waiting.append((step, True))
        map_aggregate(step.record.call.args, lambda v: waiting.append((v, False)) if isinstance(v, Leaf | Made) else v)
    return list(order)
