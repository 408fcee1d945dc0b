"""Sequences and optionals: lists, as long as their lengths and positions are known."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.constants import joined
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, SequenceValue, Value, constant_value
from effsparse_cli.formats.onnx.operators import NotLoweredError, Result, operator

STRUCTURE = "none: a list of values"
MOST_PIECES = 1 << 12


def position(c: OpCall, i: int, length: int) -> int:
    place = c.ints(i)[0]
    return place + length if place < 0 else place


@operator("SequenceEmpty", "SequenceConstruct", primitives=STRUCTURE, constants="lowered")
def construct(c: OpCall) -> Result:
    return SequenceValue(tuple(value for value in c.inputs if value is not None))


@operator("SequenceAt", primitives=STRUCTURE, constants="lowered")
def at(c: OpCall) -> Result:
    values = c.items(0).values
    return values[position(c, 1, len(values))]


@operator("SequenceLength", primitives=STRUCTURE, constants="lowered")
def length(c: OpCall) -> Result:
    return constant_value(np.asarray(len(c.items(0).values), np.int64))


@operator("SequenceInsert", primitives=STRUCTURE, constants="lowered")
def insert(c: OpCall) -> Result:
    values = c.items(0).values
    place = position(c, 2, len(values)) if c.has(2) else len(values)
    return SequenceValue((*values[:place], c.value(1), *values[place:]))


@operator("SequenceErase", primitives=STRUCTURE, constants="lowered")
def erase(c: OpCall) -> Result:
    values = c.items(0).values
    place = position(c, 1, len(values)) if c.has(1) else len(values) - 1
    return SequenceValue((*values[:place], *values[place + 1 :]))


@operator("OptionalHasElement", primitives="none: a constant", constants="lowered")
def has_element(c: OpCall) -> Result:
    return constant_value(np.asarray(c.has(0)))


@operator("SplitToSequence", primitives="Take", constants="lowered")
def split_to_sequence(c: OpCall) -> Result:
    axis = c.attr("axis", 0) % len(c.shape())
    total = c.shape()[axis]
    given = c.array(1) if c.has(1) else np.asarray(1)
    step = int(given) if given.ndim == 0 else 0
    if step < 0 or (step and total // step > MOST_PIECES):
        raise NotLoweredError(f"it splits {total} into pieces of {step}")
    sizes = [min(step, total - at) for at in range(0, total, step)] if step else [int(n) for n in given]
    ends = np.cumsum([0, *sizes])
    parts: list[Value] = []
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        parts.append(_part(c, axis, start, end, drop=not c.has(1) and not c.attr("keepdims", 1)))
    return SequenceValue(tuple(parts))


def _part(c: OpCall, axis: int, start: int, end: int, drop: bool) -> Value:
    value = c.value(0)
    if isinstance(value, ConstantValue):
        cut = value.moved(lambda a: a[(slice(None),) * axis + (slice(start, end),)])
        return cut.moved(lambda a: a.squeeze(axis)) if drop else cut
    piece = c.b.slice(value.node, axis, start, end)
    shape = c.b.shape(piece)
    return LiveValue(c.b.reshape(piece, (*shape[:axis], *shape[axis + 1 :])) if drop else piece, shifted=value.shifted)


@operator("ConcatFromSequence", primitives="Concat", constants="lowered")
def concat_from_sequence(c: OpCall) -> Result:
    values, axis, stacked = c.items(0).values, c.attr("axis"), c.attr("new_axis", 0)
    if not values:
        raise NotLoweredError("an empty sequence has no shape")
    constants = [value for value in values if isinstance(value, ConstantValue)]
    if len(constants) == len(values):
        return joined(c, constants, axis, bool(stacked))
    nodes = [c.node_of(value) for value in values]
    return c.b.stack(nodes, axis) if stacked else c.b.concat(nodes, axis)
