"""Pooling: every position of its window reaches an output, in max pooling too, because the arg max depends on the
input."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.convolution import per_axis
from effsparse_cli.formats.torch.values import Arg, Result
from effsparse_cli.graph import windows

operator = family("pooling", steps=costs.spatial_axes)


def pool(call: OpCall, x: Arg, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, rank: int) -> int:
    """Pool to the traced output size, which includes ceil mode."""
    node = call.node(x)
    kernels = per_axis(kernel, rank)
    strides = per_axis(stride, rank) if stride else kernels
    sizes, out = call.b.shape(node)[-rank:], call.shape[-rank:]
    tables = [
        windows.sliding_to(o, size, k, stride=s, dilation=d, before=p)
        for o, size, k, s, d, p in zip(
            out, sizes, kernels, strides, per_axis(dilation, rank), per_axis(padding, rank), strict=True
        )
    ]
    return call.b.window(node, (*(None,) * (len(call.b.shape(node)) - rank), *tables))


def _rank(name: str) -> int:
    return next(int(d) for d in "123" if f"{d}d" in name)


@operator("max_pool1d", "max_pool2d", "max_pool3d", "mkldnn_max_pool2d", "quantized_max_pool2d")
def max_pool(call: OpCall, x: Arg, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, *_: Arg) -> int:
    return pool(call, x, kernel, stride, padding, dilation, _rank(call.name))


@operator("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    call: OpCall, x: Arg, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, *_: Arg
) -> Result:
    y = pool(call, x, kernel, stride, padding, dilation, _rank(call.name))
    return [y, call.b.join(y, keeps_zero=False)]


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(call: OpCall, x: Arg, kernel: Arg, stride: Arg, padding: Arg, *_: Arg) -> int:
    return pool(call, x, kernel, stride, padding, 1, _rank(call.name))


@operator(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip
def adaptive_pool(call: OpCall, x: Arg, size: Sequence[int]) -> Result:
    node, rank = call.node(x), _rank(call.name)
    shape = call.b.shape(node)
    tables = [windows.adaptive(n, out) for n, out in zip(shape[-rank:], call.shape[-rank:], strict=True)]
    y = call.b.window(node, (*(None,) * (len(shape) - rank), *tables))
    return [y, call.b.join(y, keeps_zero=False)] if len(call.results) > 1 else y
