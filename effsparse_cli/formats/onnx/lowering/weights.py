"""Weights in the graph: a constant that a contraction uses in, Weight nodes with the layer and the position of each
stored element out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from effsparse_cli.formats.onnx.lowering.mixed_weights import place_mixed_weight
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, Value
from effsparse_cli.formats.onnx.operators import NotLoweredError
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Taps


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
    alone = constant.origin is not None and constant.origin.stored is not None and not constant.mixed
    if not alone and constant.recipe is not None:
        return place_mixed_weight(call, constant, op, builder or call.b)
    if constant.origin is None or constant.origin.stored is None:
        constant = store.derive(constant, call.node.name or call.node.output[0])
    origin = constant.origin
    assert origin is not None
    stored = origin.stored
    assert stored is not None
    if constant.unchanged:
        stored.used_unchanged = True
    elif constant not in stored.altered:
        stored.altered.append(constant)
    return (builder or call.b).weight(store.layer(stored, op), constant.shape, origin.view())


def contract(
    call: OpCall, x: int, weight: ConstantValue, op: str, windows: Sequence[Taps] = (), groups: int = 1
) -> int:
    """Contract x by a weight [groups*N, C, *taps]. Rows from different stored tensors are contracted separately."""
    b = call.b
    if groups == 1 and weight.origin is not None and weight.origin.stored is None and not weight.mixed:
        runs = _runs(call, weight)
        if runs is not None:
            parts = [weight.moved(lambda a, r=r: a[r[0] : r[1]]) for r in runs]  # type: ignore[misc]
            done = [b.contract(x, place(call, _single(call, part), op), windows) for part in parts]
            return b.concat(done, len(b.shape(done[0])) - 1 - len(windows))
    return b.contract(x, place(call, weight, op), windows, groups)


def _runs(call: OpCall, weight: ConstantValue) -> list[tuple[int, int]] | None:
    assert weight.origin is not None
    owners = call.scope.state.store.owners(weight.origin.addresses()).reshape(weight.shape[0], -1)
    if owners.size == 0 or (owners != owners[:, :1]).any() or (owners < 0).any():
        return None
    cuts = [0, *(np.flatnonzero(np.diff(owners[:, 0])) + 1).tolist(), len(owners)]
    return list(pairwise(cuts))


def _single(call: OpCall, part: ConstantValue) -> ConstantValue:
    """Return the same constant, with the single stored tensor that it comes from."""
    assert part.origin is not None
    stored = call.scope.state.store.at(int(part.origin.addresses().flat[0]) - 1)
    origin = type(part.origin)(stored, part.origin.where)
    return ConstantValue(part.shape, part.compute, origin, part.mask, part.unchanged, part.derived, bare=part.bare)
