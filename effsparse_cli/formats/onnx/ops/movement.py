"""Operators that only move elements. They preserve quantized zeros and masks of minus infinity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from effsparse_cli.formats.onnx.lowering.constants import evaluate
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import LiveValue, constant_value
from effsparse_cli.formats.onnx.operators import Extent, MisfitError, NotLoweredError, Result, operator


def move(c: OpCall, change: Callable[[int], int]) -> Result:
    """Move input 0, and preserve what is known about its zeros."""
    x = c.value(0)
    return LiveValue(change(x.node), shifted=x.shifted) if isinstance(x, LiveValue) else change(c.x())


@operator(
    "Identity", primitives="none: the value itself", constants="lowered", same_values=True, positions="elementwise"
)
@operator("Optional", "OptionalGetElement", primitives="none: the value itself", constants="lowered")
def identity(c: OpCall) -> Result:
    value = c.get(0)
    if value is None:
        raise NotLoweredError("an empty optional")
    return value


@operator("Dropout", primitives="none: the value itself", constants="lowered", positions="dropout", stays_in_file=True)
def dropout(c: OpCall) -> Result:
    """Dropout does nothing in evaluation mode. Its mask is all ones."""
    return [c.value(0), constant_value(np.broadcast_to(True, c.shape()))]


@operator("Shape", primitives="none: a constant", constants="lowered", positions="shape")
@operator("Size", primitives="none: a constant", constants="lowered")
def shape(c: OpCall) -> Result:
    sizes = np.asarray(c.shape(), np.int64)
    if c.node.op_type == "Size":
        return constant_value(np.asarray(math.prod(c.shape()), np.int64))
    return constant_value(sizes[c.attr("start", 0) : c.attr("end")])


@operator("Reshape", primitives="Reshape", constants="moved", same_values=True, positions="reshape")
def reshape(c: OpCall) -> Result:
    wanted = c.ints_from(1, "shape")
    if wanted is None:
        raise NotLoweredError("no shape is given")
    old = c.shape()
    if not c.attr("allowzero", 0):
        wanted = [old[i] if n == 0 and i < len(old) else n for i, n in enumerate(wanted)]
    fixed = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and fixed:
        wanted[wanted.index(-1)] = math.prod(old) // fixed
    if math.prod(wanted) != math.prod(old) or any(n < 0 for n in wanted):
        raise MisfitError(f"{list(old)} cannot be reshaped to {wanted}")
    return move(c, lambda x: c.b.reshape(x, wanted))


@operator("Flatten", primitives="Reshape", constants="moved", same_values=True, positions="regroup")
def flatten(c: OpCall) -> Result:
    old, axis = c.shape(), c.attr("axis", 1)
    axis = axis + len(old) if axis < 0 else axis
    return move(c, lambda x: c.b.reshape(x, (math.prod(old[:axis]), math.prod(old[axis:]))))


@operator("Squeeze", primitives="Reshape", constants="moved", same_values=True, positions="regroup")
def squeeze(c: OpCall) -> Result:
    old = c.shape()
    given = c.ints_from(1, "axes")
    gone = {i for i, n in enumerate(old) if n == 1} if given is None else {a % len(old) for a in given}
    return move(c, lambda x: c.b.reshape(x, [n for i, n in enumerate(old) if i not in gone]))


@operator("Unsqueeze", primitives="Reshape", constants="moved", same_values=True, positions="regroup")
def unsqueeze(c: OpCall) -> Result:
    given = c.ints_from(1, "axes") or []
    rank = len(c.shape()) + len(given)
    sizes, new = iter(c.shape()), {a % rank for a in given}
    wanted = [1 if i in new else next(sizes) for i in range(rank)]
    return move(c, lambda x: c.b.reshape(x, wanted))


@operator("Transpose", primitives="Permute", constants="moved", positions="transpose")
def transpose(c: OpCall) -> Result:
    dims = c.attr("perm") or list(range(len(c.shape())))[::-1]
    if sorted(dims) != list(range(len(c.shape()))):
        raise MisfitError(f"{list(c.shape())} does not have the axes {dims}")
    return move(c, lambda x: c.b.permute(x, dims))


def _expanded(c: OpCall) -> Extent:
    return np.broadcast_shapes(c.shape(), tuple(max(n, 0) for n in c.few_ints(1)))


@operator("Expand", primitives="Expand", constants="moved", extent=_expanded, positions="expand", names_layers=False)
def expand(c: OpCall) -> Result:
    try:
        wanted = np.broadcast_shapes(c.shape(), tuple(c.ints(1)))
    except ValueError:
        raise MisfitError(f"{list(c.shape())} cannot be expanded to {c.ints(1)}") from None
    return move(c, lambda x: c.b.expand(x, wanted))


@operator("DepthToSpace", primitives="Reshape, Permute", constants="moved")
def depth_to_space(c: OpCall) -> Result:
    n, channels, *sizes = c.shape()
    k = c.attr("blocksize")
    order = (0, 3, 4, 1, 5, 2) if c.attr("mode", "DCR") == "DCR" else (0, 1, 4, 2, 5, 3)
    inner = (k, k, channels // k**2) if c.attr("mode", "DCR") == "DCR" else (channels // k**2, k, k)
    return move(c, lambda x: _blocks(c, x, (n, *inner, *sizes), order, (n, channels // k**2, *(s * k for s in sizes))))


@operator("SpaceToDepth", primitives="Reshape, Permute", constants="moved")
def space_to_depth(c: OpCall) -> Result:
    n, channels, height, width = c.shape()
    k = c.attr("blocksize")
    split = (n, channels, height // k, k, width // k, k)
    order = (0, 1, 3, 5, 2, 4) if c.attr("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return move(c, lambda x: _blocks(c, x, split, order, (n, channels * k * k, height // k, width // k)))


def _blocks(c: OpCall, x: int, split: Sequence[int], order: Sequence[int], result: Sequence[int]) -> int:
    return c.b.reshape(c.b.permute(c.b.reshape(x, split), order), result)


def _crop_or_pad(c: OpCall) -> Extent:
    sizes = list(c.shape())
    for axis, n in zip(c.attr("axes") or range(len(sizes)), c.few_ints(1), strict=False):
        sizes[axis] = n
    return sizes


@operator("ReverseSequence", "Trilu", "Compress", primitives="Take", constants="moved", indexed=True)
@operator("CenterCropPad", primitives="Take", constants="moved", extent=_crop_or_pad, indexed=True)
def rearrange(c: OpCall) -> Result:
    """Run the reference implementation on the indices of the elements to find where each of them goes."""
    rest = [c.array(i) if c.has(i) else None for i in range(1, len(c.inputs))]
    numbers = np.arange(1, math.prod(c.shape()) + 1).reshape(c.shape())
    index = evaluate(c.node, [numbers, *rest], c.opset)[0].astype(np.int64) - 1
    return move(c, lambda x: c.b.gather(x, index))
