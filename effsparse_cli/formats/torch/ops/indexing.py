"""Reading by index. Known indices are data movement; with indices that depend on the input, everything
along the indexed axes may be read, and what is read depends on the index."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.lookup import look_up
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered
from effsparse_cli.graph import indexing

operator = family("indexing", folding="moves")


def gathered(low: Lowering, x: Arg) -> int:
    """The operator itself, run on the positions of x, says what stands where."""
    node = low.node(x)
    shape = low.b.shape(node)
    positions = torch.arange(int(np.prod(shape))).reshape(shape)
    return low.b.gather(node, low.call.substitute((x, positions)).numpy())


def known(*indices: Arg) -> bool:
    return all(i is None or isinstance(i, Const) for i in indices)


@operator("index_select", result_size=costs.index_selected)
def index_select(low: Lowering, x: Arg, dim: int, index: Arg) -> int:
    node = low.node(x)
    if known(index):
        return low.b.take(node, dim, index.tensor.cpu().numpy()) if low.b.shape(node) else node
    return indexing.pick(low.b, node, dim, low.node(index))


@operator("index", "_unsafe_index", result_size=costs.indexed)
def index(low: Lowering, x: Arg, indices: list[Any]) -> Lowered:
    """x[a, :, b]: index tensors broadcast together; their axes stand in the place of the first if they are
    neighbours, in front otherwise."""
    used = [i for i, value in enumerate(indices) if value is not None]
    if known(*indices):
        one = indices[used[0]].tensor if len(used) == 1 else None
        if one is not None and one.ndim == 1 and not one.dtype.is_floating_point and str(one.dtype) != "torch.bool":
            node = low.node(x)
            n = low.b.shape(node)[used[0]]
            return low.b.take(node, used[0], one.cpu().numpy() % max(n, 1))
        return gathered(low, x)
    if used == [0] and isinstance(x, Const) and x.parts and x.tensor.ndim >= 2:
        return look_up(low, x, indices[0])
    if any(str(getattr(v, "dtype", "")) == "torch.bool" for v in indices if isinstance(v, Live)):
        return NotImplemented
    node = low.node(x)
    shape = low.b.shape(node)
    picker = low.b.join(*[low.node(indices[i]) for i in used], keeps_zero=False)
    spread = low.b.shape(picker)
    together = used == list(range(used[0], used[-1] + 1))
    rest = [i for i in range(len(shape)) if i not in used]
    before = [i for i in rest if i < used[0]] if together else []
    after = [i for i in rest if i not in before]
    mixed = low.b.permute(low.b.reduce(node, used, keepdim=True), [*before, *used, *after])
    sizes = ([shape[i] for i in before], [shape[i] for i in after])
    mixed = low.b.reshape(mixed, (*sizes[0], *(1,) * len(spread), *sizes[1]))
    picker = low.b.reshape(picker, (*(1,) * len(before), *spread, *(1,) * len(after)))
    return low.b.times(mixed, picker)


@operator("gather", result_size=costs.gathered)
@operator("take_along_dim")
def gather(low: Lowering, x: Arg, dim: Arg, index: Arg, *_: Arg) -> Lowered:
    if low.call.name == "take_along_dim":
        dim, index = index, dim
    if dim is None:
        return NotImplemented
    if known(index):
        return gathered(low, x)
    return indexing.pick_elements(low.b, low.node(x), dim, low.node(index))


@operator("take")
def take(low: Lowering, x: Arg, index: Arg) -> int:
    if known(index):
        return gathered(low, x)
    picker = low.b.join(low.node(index), keeps_zero=False)
    return low.b.times(low.b.reduce(low.node(x), None, keepdim=False), picker)


@operator("one_hot", folding="mixes")
def one_hot(low: Lowering, index: Arg, classes: int) -> int:
    node = low.b.join(low.node(index), keeps_zero=False)
    return low.b.expand(low.b.reshape(node, (*low.b.shape(node), 1)), low.call.shape)
