"""Operators that only move data: reshape, transpose, concatenation, broadcasting. An axis that a reshape splits or
merges remains related to its parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.onnx.rules.elementwise import every
from effsparse_cli.compaction.positions import Ids, PositionFacts, ValuePositions
from effsparse_cli.graph.primitives import Bools

Axis = tuple[Ids, Bools]


def reshape(op: OpPositions) -> ValuePositions:
    op.keep_inputs(1)
    return regroup(op.facts, op.x(), op.shape)


def regroup(facts: PositionFacts, x: ValuePositions, shape: Sequence[int]) -> ValuePositions:
    """Return the same elements, in the same order, in another shape. Axes are split into parts such that every axis on
    both sides is a product of some; where that is impossible, all positions stay."""
    if 0 in x.shape or 0 in shape:
        raise NoRuleError
    for ids in x.axes:
        if len(ids) == 1:
            facts.need(ids)
    old, new = _bounds(x.shape), _bounds(shape)
    meeting = sorted(set(old) & set(new))
    found: dict[int, Axis] = {}
    parts: dict[int, Axis] = {}
    for low, high in pairwise(meeting):
        inner = sorted({b for b in (*old, *new) if low <= b <= high})
        if any(b % a for a, b in pairwise(inner)):
            for axis in range(len(x.shape)):
                if x.shape[axis] > 1 and low <= old[axis + 1] < high:
                    facts.need(x.axes[axis])
            continue
        for axis, size in enumerate(x.shape):
            if size > 1 and low <= old[axis + 1] < high:
                parts |= _split(
                    facts, (x.axes[axis], x.zero(axis)), [b for b in inner if old[axis + 1] <= b <= old[axis]]
                )
        for axis, size in enumerate(shape):
            if size > 1 and low <= new[axis + 1] < high:
                found[axis] = _merge(facts, [parts[b] for b in inner if new[axis + 1] <= b < new[axis]])
    made = [found.get(axis) or _unknown(facts, size) for axis, size in enumerate(shape)]
    return ValuePositions(tuple(ids for ids, _ in made), tuple(zero for _, zero in made))


def _bounds(shape: Sequence[int]) -> list[int]:
    """Return the products of sizes from each axis to the last, and 1 at the end."""
    bounds = [1]
    for size in reversed(shape):
        bounds.append(bounds[-1] * size)
    return bounds[::-1]


def _split(facts: PositionFacts, axis: Axis, bounds: list[int]) -> dict[int, Axis]:
    """Split an axis into parts, by lower bound."""
    ids, zero = axis
    sizes = [b // a for a, b in pairwise(bounds)]
    if len(sizes) == 1:
        return {bounds[0]: axis}
    shape = sizes[::-1]
    parts = [facts.axis(size) for size in shape]
    facts.merged(ids, *parts)
    grid = zero.reshape(shape)
    zeros = [np.asarray(grid.all(axis=tuple(i for i in range(len(shape)) if i != k))) for k in range(len(shape))]
    return dict(zip(bounds[:-1], list(zip(parts, zeros, strict=True))[::-1], strict=True))


def _merge(facts: PositionFacts, parts: list[Axis]) -> Axis:
    """Merge parts into an axis. The fastest varying part comes first."""
    if len(parts) == 1:
        return parts[0]
    ordered = parts[::-1]
    shape = [len(ids) for ids, _ in ordered]
    whole = facts.axis(int(np.prod(shape)))
    facts.merged(whole, *(ids for ids, _ in ordered))
    zero = np.zeros(shape, bool)
    for k, (_, part) in enumerate(ordered):
        zero |= part.reshape([-1 if i == k else 1 for i in range(len(shape))])
    return whole, zero.reshape(-1)


def _unknown(facts: PositionFacts, size: int) -> Axis:
    ids = facts.axis(size)
    if size > 1:
        facts.need(ids)
    return ids, np.zeros(size, bool)


def transpose(op: OpPositions) -> ValuePositions:
    x = op.x()
    order = op.attr("perm", list(range(len(x.axes)))[::-1])
    return ValuePositions(tuple(x.axes[i] for i in order), tuple(x.zero(i) for i in order))


def concat(op: OpPositions) -> ValuePositions:
    values, rank = op.given, len(op.shape)
    along = op.attr("axis", 1) % rank
    axes, zeros = [], []
    for axis in range(rank):
        own = [value.zero(axis) for value in values]
        if axis == along:
            axes.append(np.concatenate([value.axes[axis] for value in values]))
            zeros.append(np.concatenate(own))
        else:
            for value in values[1:]:
                op.facts.join(values[0].axes[axis], value.axes[axis])
            axes.append(values[0].axes[axis])
            zeros.append(every(own))
    return ValuePositions(tuple(axes), tuple(zeros))


def expand(op: OpPositions) -> ValuePositions:
    x, shape = op.x(), op.shape
    op.keep_inputs(1)
    axes, zeros = [], []
    for axis, size in enumerate(shape):
        own = axis - len(shape) + len(x.axes)
        if own >= 0 and len(x.axes[own]) == size:
            axes.append(x.axes[own])
            zeros.append(x.zero(own))
            continue
        if own >= 0:
            op.facts.need(x.axes[own])
        axes.append(op.facts.axis(size))
        zeros.append(np.zeros(size, bool))
    return ValuePositions(tuple(axes), tuple(zeros))


def tile(op: OpPositions) -> ValuePositions:
    op.keep_inputs(1)
    return pass_same_axes(op, op.x())


def pass_same_axes(op: OpPositions, x: ValuePositions, same: Sequence[int] | None = None) -> ValuePositions:
    """Pass on axes of the same size, or the given ones; along the others all positions stay."""
    kept = [i for i, n in enumerate(op.shape) if x.shape[i] == n] if same is None else same
    axes, zeros = [], []
    for axis, size in enumerate(op.shape):
        if axis in kept:
            axes.append(x.axes[axis])
            zeros.append(x.zero(axis))
            continue
        axes.append(op.facts.axis(size))
        zeros.append(np.zeros(size, bool))
        op.facts.need(x.axes[axis], axes[-1])
    return ValuePositions(tuple(axes), tuple(zeros))


def shape_of(op: OpPositions) -> ValuePositions:
    """A Shape keeps giving the original sizes, so what is computed from them does not change."""
    found = op.facts.fresh(op.shape)
    op.facts.need(*found.axes)
    return found


def filled(op: OpPositions) -> ValuePositions:
    op.keep_inputs(0)
    return shape_of(op)
