"""Reading by index. Constant indices are data movement; with indices that depend on the input, everything along the
indexed axes may be read, and the result depends on the index too."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.lookup import look_up
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result
from effsparse_cli.graph import indexing

operator = family("indexing", folding="moves")


def gathered(call: OpCall, x: Arg) -> int:
    """Gather the elements of x that the operator picks, found by running it on positions."""
    node = call.node(x)
    shape = call.b.shape(node)
    positions = torch.arange(int(np.prod(shape))).reshape(shape)
    return call.b.gather(node, call.substitute((x, positions)).numpy())


def are_constant(*indices: Arg) -> bool:
    return all(i is None or isinstance(i, ConstantValue) for i in indices)


@operator("index_select", result_size=costs.index_selected)
def index_select(call: OpCall, x: Arg, dim: int, index: Arg) -> int:
    node = call.node(x)
    if are_constant(index):
        return call.b.take(node, dim, index.tensor.cpu().numpy()) if call.b.shape(node) else node
    return indexing.pick(call.b, node, dim, call.node(index))


@operator("index", "_unsafe_index", result_size=costs.indexed)
def index(call: OpCall, x: Arg, indices: list[Any]) -> Result:
    """x[a, :, b]: index tensors broadcast together; their axes replace the first indexed axis if the indexed axes are
    adjacent, and come first otherwise."""
    used = [i for i, value in enumerate(indices) if value is not None]
    if are_constant(*indices):
        one = indices[used[0]].tensor if len(used) == 1 else None
        if one is not None and one.ndim == 1 and not one.dtype.is_floating_point and str(one.dtype) != "torch.bool":
            node = call.node(x)
            n = call.b.shape(node)[used[0]]
            return call.b.take(node, used[0], one.cpu().numpy() % max(n, 1))
        return gathered(call, x)
    if used == [0] and isinstance(x, ConstantValue) and x.parts and x.tensor.ndim >= 2:
        return look_up(call, x, indices[0])
    if any(str(getattr(v, "dtype", "")) == "torch.bool" for v in indices if isinstance(v, LiveValue)):
        return NotImplemented
    node = call.node(x)
    shape = call.b.shape(node)
    picker = call.b.join(*[call.node(indices[i]) for i in used], keeps_zero=False)
    spread = call.b.shape(picker)
    together = used == list(range(used[0], used[-1] + 1))
    rest = [i for i in range(len(shape)) if i not in used]
    before = [i for i in rest if i < used[0]] if together else []
    after = [i for i in rest if i not in before]
    mixed = call.b.permute(call.b.reduce(node, used, keepdim=True), [*before, *used, *after])
    sizes = ([shape[i] for i in before], [shape[i] for i in after])
    mixed = call.b.reshape(mixed, (*sizes[0], *(1,) * len(spread), *sizes[1]))
    picker = call.b.reshape(picker, (*(1,) * len(before), *spread, *(1,) * len(after)))
    return call.b.times(mixed, picker)


@operator("gather", result_size=lambda arguments, _: costs.numel(arguments["index"]))
@operator("take_along_dim")
def gather(call: OpCall, x: Arg, dim: Arg, index: Arg, *_: Arg) -> Result:
    if call.name == "take_along_dim":
        dim, index = index, dim
    if dim is None:
        return NotImplemented
    if are_constant(index):
        return gathered(call, x)
    return indexing.pick_elements(call.b, call.node(x), dim, call.node(index))


@operator("take")
def take(call: OpCall, x: Arg, index: Arg) -> int:
    if are_constant(index):
        return gathered(call, x)
    picker = call.b.join(call.node(index), keeps_zero=False)
    return call.b.times(call.b.reduce(call.node(x), None, keepdim=False), picker)


@operator("one_hot", folding="mixes")
def one_hot(call: OpCall, index: Arg, classes: int) -> int:
    node = call.b.join(call.node(index), keeps_zero=False)
    return call.b.expand(call.b.reshape(node, (*call.b.shape(node), 1)), call.shape)
