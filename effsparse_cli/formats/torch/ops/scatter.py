"""Writing by index. Known indices are exact: the operator, run on positions, says which element of which
operand stands where. With indices that depend on the input, what is written may land anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Const, Live
from effsparse_cli.graph import windows

operator = family("scatter", result_size=costs.broadcast)


def placed(low: Lowering, x: Arg, source: Arg, known: bool) -> int:
    """x with elements of `source` written over it. Where the operator's indices are unknown everything of
    both, and of the indices, may be anywhere."""
    if not isinstance(source, Live | Const):
        filling = torch.tensor(source)
        source = Const(filling, lambda: filling)
    node, written = low.node(x), low.node(source)
    if not known:
        return _anywhere(low, node, x)
    sizes = [int(np.prod(low.b.shape(n))) for n in (node, written)]
    first = torch.arange(sizes[0]).reshape(low.b.shape(node))
    second = torch.arange(sizes[0], sum(sizes)).reshape(low.b.shape(written))
    index = low.call.substitute((x, first), (source, second))
    both = low.b.concat([low.b.reshape(node, (-1,)), low.b.reshape(written, (-1,))], 0)
    return low.b.gather(both, index.numpy())


def _anywhere(low: Lowering, node: int, x: Arg) -> int:
    others = [low.b.reduce(low.node(v), None, keepdim=False) for v in low.call.values() if v is not x]
    return low.b.expand(low.b.join(node, *others), low.call.shape)


@operator("slice_scatter", "select_scatter", "diagonal_scatter")
def into_view(low: Lowering, x: Arg, source: Arg, *_: Arg) -> int:
    return placed(low, x, source, known=True)


@operator("scatter.src", "scatter.value", "index_copy")
def scatter(low: Lowering, x: Arg, dim: int, index: Arg, source: Arg, *_: Arg) -> int:
    if not isinstance(source, Live | Const):
        return _filled(low, x, isinstance(index, Const), source)
    return placed(low, x, source, isinstance(index, Const))


@operator("index_fill")
def index_fill(low: Lowering, x: Arg, dim: int, index: Arg, value: Arg) -> int:
    return _filled(low, x, isinstance(index, Const), value)


def _filled(low: Lowering, x: Arg, known: bool, value: Arg) -> int:
    """One number written in several places: a number of our own shows where."""
    node = low.node(x)
    if not known or isinstance(value, Live):
        return _anywhere(low, node, x)
    names = [a.name for a in low.call.target._schema.arguments]
    marked = [-1 if name == "value" else a for name, a in zip(names, low.call.args, strict=True)]
    call = type(low.call)(low.call.target, marked, low.call.results, low.budget)
    positions = torch.arange(int(np.prod(low.b.shape(node)))).reshape(low.b.shape(node))
    index = call.substitute((x, positions)).numpy()
    y = low.b.gather(node, index)
    return low.b.join(y, low.b.constant(index < 0)) if value != 0 else y


@operator("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(low: Lowering, x: Arg, indices: list[Any], source: Arg, accumulate: bool, *_: Arg) -> int:
    known = all(i is None or isinstance(i, Const) for i in indices)
    if accumulate:
        return _added(low, x, source, known)
    return placed(low, x, source, known)


@operator("masked_scatter")
def masked_scatter(low: Lowering, x: Arg, mask: Arg, source: Arg) -> int:
    return placed(low, x, source, isinstance(mask, Const))


@operator("scatter_add", "index_add")
def scatter_add(low: Lowering, x: Arg, dim: int, index: Arg, source: Arg, *_: Arg) -> int:
    return _added(low, x, source, isinstance(index, Const))


@operator("scatter_reduce", "index_reduce")
def scatter_reduce(low: Lowering, x: Arg, dim: int, index: Arg, source: Arg, *_: Arg) -> int:
    return _anywhere(low, low.node(x), x)


def _added(low: Lowering, x: Arg, source: Arg, known: bool) -> int:
    """Adding unit after unit shows where each element of the source lands; several may land together."""
    node, written = low.node(x), low.node(source)
    size = int(np.prod(low.b.shape(written)))
    if not known or size > 4096:
        return _anywhere(low, node, x)
    zeros = torch.zeros(low.b.shape(node), dtype=torch.float64)
    landing = []
    for i in range(size):
        unit = torch.zeros(size, dtype=torch.float64)
        unit[i] = 1
        result = low.call.substitute((x, zeros), (source, unit.reshape(low.b.shape(written))))
        landing.append(result.reshape(-1).numpy() != 0)
    reads = np.stack(landing) if landing else np.zeros((0, zeros.numel()), dtype=bool)
    summed = low.b.window(low.b.reshape(written, (-1,)), (windows.from_matrix(reads),))
    return low.b.join(node, low.b.reshape(summed, low.b.shape(node)))
