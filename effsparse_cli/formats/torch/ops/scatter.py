"""Writing by index. Constant indices are exact: the operator is run on positions to find where each element goes. With
indices that depend on the input, elements may be written anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, constant_value
from effsparse_cli.graph import windows

operator = family("scatter", result_size=costs.broadcast)


def write(call: OpCall, x: Arg, source: Arg, known: bool) -> int:
    """Write elements of `source` into x. If indices are not `known`, every result depends on all operands."""
    if not isinstance(source, LiveValue | ConstantValue):
        source = constant_value(torch.tensor(source))
    node, written = call.node(x), call.node(source)
    if not known:
        return _write_anywhere(call, node, x)
    sizes = [int(np.prod(call.b.shape(n))) for n in (node, written)]
    first = torch.arange(sizes[0]).reshape(call.b.shape(node))
    second = torch.arange(sizes[0], sum(sizes)).reshape(call.b.shape(written))
    index = call.substitute((x, first), (source, second))
    both = call.b.concat([call.b.reshape(node, (-1,)), call.b.reshape(written, (-1,))], 0)
    return call.b.gather(both, index.numpy())


def _write_anywhere(call: OpCall, node: int, x: Arg) -> int:
    others = [call.b.reduce(call.node(v), None, keepdim=False) for v in call.values() if v is not x]
    return call.b.expand(call.b.join(node, *others), call.shape)


@operator("slice_scatter", "select_scatter", "diagonal_scatter")
def into_view(call: OpCall, x: Arg, source: Arg, *_: Arg) -> int:
    return write(call, x, source, known=True)


@operator("scatter.src", "scatter.value", "index_copy")
def scatter(call: OpCall, x: Arg, dim: int, index: Arg, source: Arg, *_: Arg) -> int:
    if not isinstance(source, LiveValue | ConstantValue):
        return _fill(call, x, isinstance(index, ConstantValue), source)
    return write(call, x, source, isinstance(index, ConstantValue))


@operator("index_fill")
def index_fill(call: OpCall, x: Arg, dim: int, index: Arg, value: Arg) -> int:
    return _fill(call, x, isinstance(index, ConstantValue), value)


def _fill(call: OpCall, x: Arg, known: bool, value: Arg) -> int:
    """Write one number in several places, found by running the operator with -1 on positions."""
    node = call.node(x)
    if not known or isinstance(value, LiveValue):
        return _write_anywhere(call, node, x)
    names = [a.name for a in call.target._schema.arguments]
    marked = [-1 if name == "value" else a for name, a in zip(names, call.args, strict=True)]
    positions = torch.arange(int(np.prod(call.b.shape(node)))).reshape(call.b.shape(node))
    index = replace(call, args=marked).substitute((x, positions)).numpy()
    y = call.b.gather(node, index)
    return call.b.join(y, call.b.constant(index < 0)) if value != 0 else y


@operator("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(call: OpCall, x: Arg, indices: list[Any], source: Arg, accumulate: bool, *_: Arg) -> int:
    known = all(i is None or isinstance(i, ConstantValue) for i in indices)
    if accumulate:
        return _add(call, x, source, known)
    return write(call, x, source, known)


@operator("masked_scatter")
def masked_scatter(call: OpCall, x: Arg, mask: Arg, source: Arg) -> int:
    return write(call, x, source, isinstance(mask, ConstantValue))


@operator("scatter_add", "index_add")
def scatter_add(call: OpCall, x: Arg, dim: int, index: Arg, source: Arg, *_: Arg) -> int:
    return _add(call, x, source, isinstance(index, ConstantValue))


@operator("scatter_reduce", "index_reduce")
def scatter_reduce(call: OpCall, x: Arg, dim: int, index: Arg, source: Arg, *_: Arg) -> int:
    return _write_anywhere(call, call.node(x), x)


def _add(call: OpCall, x: Arg, source: Arg, known: bool) -> int:
    """Add unit vectors to find where each element of the source goes; several may go to one place."""
    node, written = call.node(x), call.node(source)
    size = int(np.prod(call.b.shape(written)))
    if not known or size > 4096:
        return _write_anywhere(call, node, x)
    zeros = torch.zeros(call.b.shape(node), dtype=torch.float64)
    landing = []
    for i in range(size):
        unit = torch.zeros(size, dtype=torch.float64)
        unit[i] = 1
        result = call.substitute((x, zeros), (source, unit.reshape(call.b.shape(written))))
        landing.append(result.reshape(-1).numpy() != 0)
    reads = np.stack(landing) if landing else np.zeros((0, zeros.numel()), dtype=bool)
    summed = call.b.window(call.b.reshape(written, (-1,)), (windows.from_matrix(reads),))
    return call.b.join(node, call.b.reshape(summed, call.b.shape(node)))
