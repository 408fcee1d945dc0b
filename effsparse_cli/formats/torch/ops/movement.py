"""Data movement. Common operators have their own primitives, which keep uniform axes uniform; any other is run on the
positions of its input and becomes a gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, ConstantValue, Result

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
def move(call: OpCall, x: Arg, *_: Arg) -> Result:
    """Run the operator on positions plus one, so that zeros that it adds differ from elements."""
    if len(call.values()) > 1:
        return NotImplemented
    node = call.node(x)
    shape = call.b.shape(node)
    positions = torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    results = call.evaluate(lambda _: positions)
    gathered = [call.b.gather(node, result.numpy().astype(np.int64) - 1) for result in tree_flatten(results)[0]]
    return gathered if isinstance(results, list | tuple) else gathered[0]


@operator(
    "reshape", "flatten", "unflatten", "reshape_as", "ravel", "_reshape_alias", folding="reshapes", view_or_copy=True
)
@operator("_unsafe_view", folding="reshapes", result_size=costs.total)
@operator("view", "squeeze", "unsqueeze", "view_as", "atleast_1d", "atleast_2d", "atleast_3d", folding="reshapes")
def reshape(call: OpCall, x: Arg, *_: Arg) -> Result:
    if isinstance(x, ConstantValue):
        return call.from_shapes()
    return call.b.reshape(call.node(x), call.shape)


@operator("expand", "expand_as", "broadcast_to")
def expand(call: OpCall, x: Arg, *_: Arg) -> Result:
    """A constant can be expanded to the shape of something live."""
    if isinstance(x, ConstantValue):
        return call.from_shapes()
    return call.b.expand(call.node(x), call.shape)


@operator(
    "permute", "transpose", "swapaxes", "swapdims", "t", "numpy_T", "mT", "adjoint", "matrix_H", "mH", "movedim",
    "moveaxis",
)  # fmt: skip
def permute(call: OpCall, x: Arg, *_: Arg) -> int:
    """The order of the axes is found by running the operator on a tensor whose sizes are the numbers of its axes."""
    node = call.node(x)
    rank = len(call.b.shape(node))
    if call.name == "numpy_T":  # torch warns about it
        return call.b.permute(node, range(rank)[::-1])
    numbered = torch.empty(tuple(range(rank)), device="meta")
    return call.b.permute(node, tuple(call.evaluate(lambda _: numbered).shape))


@operator("slice")
def slice_(call: OpCall, x: Arg, dim: int, start: int | None, end: int | None, step: int) -> int:
    return call.b.slice(call.node(x), dim, start, end, step)


@operator("narrow")
def narrow(call: OpCall, x: Arg, dim: int, start: Arg, length: int) -> int:
    begin = int(start.tensor) if hasattr(start, "tensor") else start
    node = call.node(x)
    begin %= max(call.b.shape(node)[dim], 1)
    return call.b.slice(node, dim, begin, begin + length)


@operator("select")
def select(call: OpCall, x: Arg, dim: int, index: int) -> int:
    return call.b.take_one(call.node(x), dim, index)


@operator("split", "chunk", "split_with_sizes", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes")
def split(call: OpCall, x: Arg, size: Arg, dim: int) -> list[int]:
    """Split at the sizes of the traced results."""
    parts, start = [], 0
    for result in call.results:
        stop = start + result.shape[dim]
        parts.append(call.b.slice(call.node(x), dim, start, stop))
        start = stop
    return parts


@operator("unbind")
def unbind(call: OpCall, x: Arg, dim: int) -> list[int]:
    return [call.b.take_one(call.node(x), dim, i) for i in range(len(call.results))]


@operator("cat", "concat", "concatenate", result_size=costs.total)
def cat(call: OpCall, xs: list[Any], dim: int) -> int:
    """Empty vectors can be concatenated with anything, for compatibility with old versions of torch."""
    nodes = [call.node(x) for x in xs]
    rank = len(call.shape)
    return call.b.concat([n for n in nodes if len(call.b.shape(n)) == rank], dim)


@operator("stack", result_size=costs.total)
def stack(call: OpCall, xs: list[Any], dim: int) -> int:
    return call.b.stack([call.node(x) for x in xs], dim)


@operator("hstack", "vstack", "dstack", "column_stack", result_size=costs.total)
def stack_along(call: OpCall, xs: list[Any]) -> int:
    """Operands get the rank of the result, each operator in its own way, and are concatenated."""
    axis = {"hstack": 1, "vstack": 0, "dstack": 2, "column_stack": 1}[call.name]
    rank = len(call.shape)
    nodes = []
    for x in xs:
        node = call.node(x)
        shape = call.b.shape(node)
        if len(shape) < rank:
            front = call.name in ("vstack", "dstack") and len(shape) == 1
            shape = (1, *shape) if front else shape
            shape = (*shape, *(1,) * (rank - len(shape)))
        nodes.append(call.b.reshape(node, shape))
    return call.b.concat(nodes, min(axis, rank - 1))


@operator("meshgrid", "broadcast_tensors", folding="mixes")
def meshgrid(call: OpCall, xs: list[Any], indexing: str = "ij") -> list[int]:
    """Each vector gets its own axis; "xy" swaps the first two."""
    results = []
    for i, (x, result) in enumerate(zip(xs, call.results, strict=True)):
        node, shape = call.node(x), tuple(result.shape)
        if call.name == "meshgrid":
            axis = {0: 1, 1: 0}.get(i, i) if indexing == "xy" and len(xs) > 1 else i
            node = call.b.reshape(node, [-1 if a == axis else 1 for a in range(len(shape))])
        results.append(call.b.expand(node, shape))
    return results


@operator("constant_pad_nd", fill=2, result_size=costs.padded)
def constant_pad(call: OpCall, x: Arg, pad: Sequence[int], value: Arg) -> int:
    """Widths start at the last axis; the new elements are constants unless they are zero."""
    node = call.node(x)
    for i in range(len(pad) // 2):
        before, after = pad[2 * i], pad[2 * i + 1]
        if before or after:
            node = call.b.pad(node, -1 - i, before, after, nonzero=bool(value))
    return node


@operator("pad", fill=3, result_size=costs.padded)
def pad(call: OpCall, x: Arg, widths: Sequence[int], mode: str, value: Arg) -> Result:
    if mode == "constant":
        return constant_pad(call, x, widths, value or 0)
    return move(call, x)


@operator("view_as_real", folding="mixes")
def view_as_real(call: OpCall, x: Arg) -> int:
    node = call.node(x)
    return call.b.expand(call.b.reshape(node, (*call.b.shape(node), 1)), call.shape)


@operator("view_as_complex", folding="mixes")
def view_as_complex(call: OpCall, x: Arg) -> int:
    return call.b.reduce(call.node(x), [-1], keepdim=False)


@operator("sym_size", "sym_numel", folding="mixes")
def size(call: OpCall, x: Arg, *dim: int) -> int:
    """Return a number instead of a node: programs that were exported with open dimensions call it."""
    shape = call.b.shape(call.node(x))
    return shape[dim[0]] if dim else int(np.prod(shape))
