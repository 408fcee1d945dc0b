"""Mixed weights: weights that are computed from stored tensors in ways that mix their elements, such as weight
standardization. Evaluation of constants records how each was computed. Where one is used as a weight, the record
becomes the graph of a mixed weight, which says which stored elements contribute to which of its elements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import (
    Arranged,
    ConstantValue,
    LiveValue,
    Made,
    Recipe,
    Record,
    Value,
    constant_value,
)
from effsparse_cli.formats.onnx.tensors.store import unique_name
from effsparse_cli.formats.onnx.tensors.stored import Stored, nonzero
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer, MixedWeight


def note_mixing(call: OpCall, result: ConstantValue, position: int) -> None:
    """Record how a constant was computed, and which constants were mixed into it."""
    operands = call.operands()
    if not any(v.recipe for v in operands):
        return
    recorded = (v.recipe or v if isinstance(v, ConstantValue) else None for v in call.inputs)
    result.recipe = Made(Record(call, tuple(recorded)), position)
    weight = next((v for v in operands if result.origin is not None and v.stored is result.stored), None)
    mixed = dict.fromkeys(v for operand in operands for v in operand.mixed)
    if weight is None:
        mixed |= dict.fromkeys(v for v in operands if v.origin is not None and not v.mixed)
    elif result.mask is not None:
        # A tensor that is mixed only into the mask of another is not a weight itself.
        own = {v.stored for v in (weight, *weight.mixed)}
        mixed = dict.fromkeys(v for v in mixed if v.stored in own)
    if mixed and weight is not None and not weight.mixed:
        mixed[weight] = None
    result.mixed = tuple(mixed)


def place_mixed_weight(call: OpCall, constant: ConstantValue, op: str, builder: Builder) -> int:
    """Add a Weight node for a constant that stored weights were mixed into."""
    store = call.scope.state.store
    sources = _sources(call, constant)
    if constant not in store.mixed:
        taken = {stored.name for stored in store.tensors}
        store.mixed[constant] = name = unique_name(f"mixture {len(store.mixed_weights)}", taken)
        layer = Layer(name, op, constant.shape, lambda: nonzero(constant.array), values=lambda: constant.array)
        assert constant.recipe is not None
        making = _replay(constant.recipe, {stored for stored, _ in sources})
        store.mixed_weights[name] = MixedWeight(layer, making)
    for stored, before in sources:
        stored.add_use(before)
        builder.layers.setdefault(stored.name, store.layer(stored, op))
    return builder.weight(store.mixed_weights[store.mixed[constant]].layer, constant.shape, call=call.path)


def _sources(call: OpCall, constant: ConstantValue) -> list[tuple[Stored, ConstantValue]]:
    """Return the stored tensors that count as weights (matrices, or the largest), with the constants mixed."""
    found: dict[Stored, ConstantValue] = {}
    for value in constant.mixed or (constant,):
        for stored, before in _by_tensor(call, value):
            if stored not in found or before.mask is not None:
                found[stored] = before
    matrices = {stored: v for stored, v in found.items() if sum(n > 1 for n in stored.shape) > 1}
    largest = max(found, key=lambda stored: stored.size)
    return list((matrices or {largest: found[largest]}).items())


def _by_tensor(call: OpCall, value: ConstantValue) -> Iterator[tuple[Stored, ConstantValue]]:
    store = call.scope.state.store
    if value.stored is not None:
        yield value.stored, value
    elif value.origin is not None:
        for owner in np.unique(store.owners(value.origin.addresses())).tolist():
            if owner >= 0:
                yield store.tensors[owner], store.whole(store.tensors[owner])


def _replay(recipe: Recipe, weights: set[Stored]) -> Graph:
    """Return the computation as a graph from stored weights to the constant. Other tensors are constants in it."""
    builder = Builder()
    sources: dict[Stored, int] = {}
    done: dict[Record, list[Value | None]] = {}

    def node(given: Recipe) -> int:
        moves = []
        while isinstance(given, Arranged):
            moves.append(given.move)
            given = given.given
        if isinstance(given, Made):
            found = done[given.record][given.position]
            start = found.node if isinstance(found, LiveValue) else _constant(builder, found)
        else:
            start = _leaf(builder, given, sources, weights)
        for move in reversed(moves):
            shape = builder.shape(start)
            start = builder.gather(start, move(np.arange(math.prod(shape)).reshape(shape)))
        return start

    def operand(given: Recipe | ConstantValue | None) -> Value | None:
        if isinstance(given, ConstantValue):
            return constant_value(given.array)
        return None if given is None else LiveValue(node(given))

    for record in _in_order(recipe):
        scope = replace(record.call.scope, builder=builder, values={})
        builder.node_name = record.call.node.name
        done[record] = scope.lower(replace(record.call, scope=scope, inputs=[operand(v) for v in record.inputs]))
    return builder.finish([node(recipe)])


def _leaf(builder: Builder, stored: Stored, sources: dict[Stored, int], weights: set[Stored]) -> int:
    if stored not in weights:
        return builder.constant(nonzero(stored.read()), stored.shape)
    if stored not in sources:
        sources[stored] = builder.source(stored.name, stored.shape)
    return sources[stored]


def _constant(builder: Builder, value: Value | None) -> int:
    assert isinstance(value, ConstantValue)
    return builder.constant(nonzero(value.array), value.shape)


def _in_order(recipe: Recipe) -> list[Record]:
    """Return the recorded op calls that lead to a constant, in topological order."""
    order: dict[Record, None] = {}
    waiting: list[tuple[Recipe, bool]] = [(recipe, False)]
    while waiting:
        given, ready = waiting.pop()
        while isinstance(given, Arranged):
            given = given.given
        if isinstance(given, Stored) or given.record in order:
            continue
        if ready:
            order[given.record] = None
            continue
        waiting.append((given, True))
        waiting += [(v, False) for v in given.record.inputs if v is not None and not isinstance(v, ConstantValue)]
    return list(order)
