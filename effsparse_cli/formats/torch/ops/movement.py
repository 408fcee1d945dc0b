"""Pure data movement. The common ones have a line of their own, which keeps uniform axes uniform; any other
is run on the positions of its input and becomes a gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Const, Lowered

operator = family("movement", folding="moves")


@operator("repeat", "tile", result_size=costs.repeated)
@operator(
    "roll", "flip", "fliplr", "flipud", "rot90", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle", "tril", "triu",
    result_size=costs.total,
)  # fmt: skip
@operator(
    "unfold", "im2col", "repeat_interleave.self_int", "diagonal", "diag", "diag_embed", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "tensor_split", "hsplit", "vsplit", "dsplit", "linalg_diagonal",
)  # fmt: skip
def moved(low: Lowering, x: Arg, *_: Arg) -> Lowered:
    """Run on one plus the positions, so that zeros put in are told from elements."""
    if len(low.call.values()) > 1:
        return NotImplemented
    node = low.node(x)
    results = low.call.evaluate(lambda _: _positions(low.b.shape(node)))
    gathered = [low.b.gather(node, result.numpy().astype(np.int64) - 1) for result in tree_flatten(results)[0]]
    return gathered if isinstance(results, list | tuple) else gathered[0]


def _positions(shape: Sequence[int]) -> torch.Tensor:
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float64).reshape(tuple(shape))


@operator(
    "reshape", "flatten", "unflatten", "reshape_as", "ravel", "_reshape_alias", folding="reshapes", view_or_copy=True
)
@operator("_unsafe_view", folding="reshapes", result_size=costs.total)
@operator(
    "view",
    "squeeze",
    "unsqueeze",
    "view_as",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    folding="reshapes",
)
def reshape(low: Lowering, x: Arg, *_: Arg) -> Lowered:
    if isinstance(x, Const):
        return low.by_shape_only()
    return low.b.reshape(low.node(x), low.call.shape)


@operator("expand", "expand_as", "broadcast_to")
def expand(low: Lowering, x: Arg, *_: Arg) -> Lowered:
    """A constant comes here when it is given the shape of something live."""
    if isinstance(x, Const):
        return low.by_shape_only()
    return low.b.expand(low.node(x), low.call.shape)


@operator("permute")
def permute(low: Lowering, x: Arg, dims: Sequence[int]) -> int:
    return low.b.permute(low.node(x), dims)


@operator("transpose", "swapaxes", "swapdims")
def transpose(low: Lowering, x: Arg, a: int, b: int) -> int:
    node = low.node(x)
    return low.b.transpose(node, a, b) if low.b.shape(node) else node


@operator("t", "numpy_T", "mT", "adjoint", "matrix_H", "mH")
def turned(low: Lowering, x: Arg) -> int:
    node = low.node(x)
    rank = len(low.b.shape(node))
    if low.call.name == "numpy_T":
        return low.b.permute(node, range(rank - 1, -1, -1))
    return low.b.transpose(node, rank - 2, rank - 1) if rank > 1 else node


@operator("movedim", "moveaxis")
def movedim(low: Lowering, x: Arg, source: Arg, target: Arg) -> int:
    node = low.node(x)
    rank = len(low.b.shape(node))
    sources, targets = ([v % rank for v in (a if isinstance(a, list) else [a])] for a in (source, target))
    rest = iter(i for i in range(rank) if i not in sources)
    dims = [sources[targets.index(i)] if i in targets else next(rest) for i in range(rank)]
    return low.b.permute(node, dims)


@operator("slice")
def slice_(low: Lowering, x: Arg, dim: int, start: int | None, end: int | None, step: int) -> int:
    return low.b.slice(low.node(x), dim, start, end, step)


@operator("narrow")
def narrow(low: Lowering, x: Arg, dim: int, start: Arg, length: int) -> int:
    begin = int(start.tensor) if hasattr(start, "tensor") else start
    node = low.node(x)
    begin %= max(low.b.shape(node)[dim], 1)
    return low.b.slice(node, dim, begin, begin + length)


@operator("select")
def select(low: Lowering, x: Arg, dim: int, index: int) -> int:
    return low.b.take_one(low.node(x), dim, index)


@operator("split", "chunk", "split_with_sizes", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes")
def split(low: Lowering, x: Arg, size: Arg, dim: int) -> list[int]:
    """The traced results say where it was split."""
    parts, start = [], 0
    for result in low.call.results:
        stop = start + result.shape[dim]
        parts.append(low.b.slice(low.node(x), dim, start, stop))
        start = stop
    return parts


@operator("unbind")
def unbind(low: Lowering, x: Arg, dim: int) -> list[int]:
    return [low.b.take_one(low.node(x), dim, i) for i in range(len(low.call.results))]


@operator("cat", "concat", "concatenate", result_size=costs.total)
def cat(low: Lowering, xs: list[Any], dim: int) -> int:
    """Old torch lets empty vectors of no shape join anything."""
    nodes = [low.node(x) for x in xs]
    rank = len(low.call.shape)
    return low.b.concat([n for n in nodes if len(low.b.shape(n)) == rank], dim)


@operator("stack", result_size=costs.total)
def stack(low: Lowering, xs: list[Any], dim: int) -> int:
    return low.b.stack([low.node(x) for x in xs], dim)


@operator("hstack", "vstack", "dstack", "column_stack", result_size=costs.total)
def stacked(low: Lowering, xs: list[Any]) -> int:
    """Each operand grown to the result's rank as its kind grows it, then one after another."""
    axis = {"hstack": 1, "vstack": 0, "dstack": 2, "column_stack": 1}[low.call.name]
    rank = len(low.call.shape)
    nodes = []
    for x in xs:
        node = low.node(x)
        shape = low.b.shape(node)
        if len(shape) < rank:
            front = low.call.name in ("vstack", "dstack") and len(shape) == 1
            shape = (1, *shape) if front else shape
            shape = (*shape, *(1,) * (rank - len(shape)))
        nodes.append(low.b.reshape(node, shape))
    return low.b.concat(nodes, min(axis, rank - 1))


@operator("meshgrid", "broadcast_tensors", folding="mixes")
def meshgrid(low: Lowering, xs: list[Any], indexing: str = "ij") -> list[int]:
    """Each vector along its own axis; "xy" swaps the first two."""
    results = []
    for i, (x, result) in enumerate(zip(xs, low.call.results, strict=True)):
        node, shape = low.node(x), tuple(result.shape)
        if low.call.name == "meshgrid":
            axis = {0: 1, 1: 0}.get(i, i) if indexing == "xy" and len(xs) > 1 else i
            node = low.b.reshape(node, [-1 if a == axis else 1 for a in range(len(shape))])
        results.append(low.b.expand(node, shape))
    return results


@operator("constant_pad_nd", fill=2, result_size=costs.padded)
def constant_pad(low: Lowering, x: Arg, pad: Sequence[int], value: Arg) -> int:
    """From the last axis on; the filling is a constant unless it is zero."""
    node = low.node(x)
    for i in range(len(pad) // 2):
        before, after = pad[2 * i], pad[2 * i + 1]
        if before or after:
            node = low.b.pad(node, -1 - i, before, after, nonzero=bool(value))
    return node


@operator("pad", fill=3, result_size=costs.padded)
def pad(low: Lowering, x: Arg, widths: Sequence[int], mode: str, value: Arg) -> Lowered:
    if mode == "constant":
        return constant_pad(low, x, widths, value or 0)
    return moved(low, x)


@operator("view_as_real", folding="mixes")
def view_as_real(low: Lowering, x: Arg) -> int:
    node = low.node(x)
    return low.b.expand(low.b.reshape(node, (*low.b.shape(node), 1)), low.call.shape)


@operator("view_as_complex", folding="mixes")
def view_as_complex(low: Lowering, x: Arg) -> int:
    return low.b.reduce(low.node(x), [-1], keepdim=False)


@operator("sym_size", "sym_numel", folding="mixes")
def size(low: Lowering, x: Arg, *dim: int) -> int:
    """No node but a number: programs that were exported for any size ask for it."""
    shape = low.b.shape(low.node(x))
    return shape[dim[0]] if dim else int(np.prod(shape))
