"""Sequences and optionals: handled as lists while their lengths and positions are known."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.fold import joined
from effsparse_cli.formats.onnx.table import NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import Items, Known, Live, Value, known

STRUCTURE = "none: a list of values"
MOST_PIECES = 1 << 12


def position(c: Call, i: int, length: int) -> int:
    place = c.ints(i)[0]
    return place + length if place < 0 else place


@lowers("SequenceEmpty", primitive=STRUCTURE, folding="never")
def empty(c: Call) -> Result:
    return Items(())


@lowers("SequenceConstruct", primitive=STRUCTURE, folding="never")
def construct(c: Call) -> Result:
    return Items(tuple(value for value in c.inputs if value is not None))


@lowers("SequenceAt", primitive=STRUCTURE, folding="never")
def at(c: Call) -> Result:
    values = c.items(0).values
    return values[position(c, 1, len(values))]


@lowers("SequenceLength", primitive=STRUCTURE, folding="never")
def length(c: Call) -> Result:
    return known(np.asarray(len(c.items(0).values), np.int64))


@lowers("SequenceInsert", primitive=STRUCTURE, folding="never")
def insert(c: Call) -> Result:
    values = c.items(0).values
    place = position(c, 2, len(values)) if c.has(2) else len(values)
    return Items((*values[:place], c.value(1), *values[place:]))


@lowers("SequenceErase", primitive=STRUCTURE, folding="never")
def erase(c: Call) -> Result:
    values = c.items(0).values
    place = position(c, 1, len(values)) if c.has(1) else len(values) - 1
    return Items((*values[:place], *values[place + 1 :]))


@lowers("OptionalHasElement", primitive="none: a constant", folding="never")
def has_element(c: Call) -> Result:
    return known(np.asarray(c.has(0)))


@lowers("SplitToSequence", primitive="Take", folding="never")
def split_to_sequence(c: Call) -> Result:
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
    return Items(tuple(parts))


def _part(c: Call, axis: int, start: int, end: int, drop: bool) -> Value:
    value = c.value(0)
    if isinstance(value, Known):
        cut = value.moved(lambda a: a[(slice(None),) * axis + (slice(start, end),)])
        return cut.moved(lambda a: a.squeeze(axis)) if drop else cut
    piece = c.b.slice(value.node, axis, start, end)
    shape = c.b.shape(piece)
    return Live(c.b.reshape(piece, (*shape[:axis], *shape[axis + 1 :])) if drop else piece, shifted=value.shifted)


@lowers("ConcatFromSequence", primitive="Concat", folding="never")
def concat_from_sequence(c: Call) -> Result:
    values, axis, stacked = c.items(0).values, c.attr("axis"), c.attr("new_axis", 0)
    if not values:
        raise NotLoweredError("an empty sequence has no shape")
    constants = [value for value in values if isinstance(value, Known)]
    if len(constants) == len(values):
        return joined(c, constants, axis, bool(stacked))
    nodes = [c.node_of(value) for value in values]
    return c.b.stack(nodes, axis) if stacked else c.b.concat(nodes, axis)
