"""Weights in the graph: a constant that a contraction uses in, Weight nodes with the layer and the position of each
stored element out. Quantized weights are relative to their zero points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from effsparse_cli.formats.onnx.lowering.mixed_weights import place_mixed_weight
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, Value
from effsparse_cli.formats.onnx.operators import NotLoweredError
from effsparse_cli.formats.onnx.tensors.stored import Array, Stored
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Shape, Taps


def is_weight(value: Value | None) -> bool:
    """Whether a value is a stored tensor or computed from one; not shape arithmetic or filled tensors."""
    return isinstance(value, ConstantValue) and value.derived


def known_weight(value: Value) -> ConstantValue:
    if not isinstance(value, ConstantValue):
        raise NotLoweredError("its weights are computed from the model's input")
    return value


def place(call: OpCall, constant: ConstantValue, op: str, builder: Builder | None = None) -> int:
    """Add a Weight node in the shape of a constant."""
    store = call.scope.state.store
    if constant.recipe is not None and (constant.stored is None or constant.mixed):
        return place_mixed_weight(call, constant, op, builder or call.b)
    if constant.stored is None:
        constant = store.derive(constant, call.node.name or call.node.output[0])
    stored, origin = constant.stored, constant.origin
    assert stored is not None
    assert origin is not None
    stored.add_use(constant)
    return (builder or call.b).weight(store.layer(stored, op), constant.shape, origin.view(), call.path)


def contract(
    call: OpCall, x: int, weight: ConstantValue, op: str, windows: Sequence[Taps] = (), groups: int = 1
) -> int:
    """Contract x by a weight [groups*N, C, *taps]. Rows from different stored tensors are contracted separately."""
    b, store = call.b, call.scope.state.store
    if groups == 1 and weight.origin is not None and weight.stored is None and not weight.mixed:
        owners = store.owners(weight.origin.addresses()).reshape(weight.shape[0], -1)
        if owners.size and (owners == owners[:, :1]).all() and (owners >= 0).all():
            cuts = [0, *(np.flatnonzero(np.diff(owners[:, 0])) + 1).tolist(), len(owners)]
            parts = [_rows(weight, start, stop, store.tensors[owners[start, 0]]) for start, stop in pairwise(cuts)]
            done = [b.contract(x, place(call, part, op), windows) for part in parts]
            return b.concat(done, len(b.shape(done[0])) - 1 - len(windows))
    return b.contract(x, place(call, weight, op), windows, groups)


def _rows(weight: ConstantValue, start: int, stop: int, stored: Stored) -> ConstantValue:
    """Return some rows of a weight, all of which come from one stored tensor."""
    part = weight.moved(lambda a: a[start:stop])
    assert part.origin is not None
    return replace(part, origin=replace(part.origin, stored=stored))


def note_zero_points(value: ConstantValue, points: Array) -> None:
    """Record the zero points of the stored tensor of a constant; `points` broadcast to the constant."""
    if value.origin is not None and value.stored is not None:
        value.stored.zero_points.append((value.origin, points))


def subtract_zero_points(value: ConstantValue, points: Array) -> ConstantValue:
    """Return a constant relative to its zero points, which are recorded."""
    note_zero_points(value, points)
    return value.altered(lambda: value.array.astype(np.int64) - points)


def broadcast_zero_points(points: Array, shape: Shape, axis: int, block: int = 0) -> Array:
    """Broadcast zero points (one for all, one per position of an axis, or one per block along it) to a shape."""
    wide = points.astype(np.int64)
    if wide.size == 1:
        return np.broadcast_to(wide.reshape(()), shape)
    if block:
        return np.repeat(wide, block, axis)[tuple(slice(n) for n in shape)]
    return np.broadcast_to(wide.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape)
