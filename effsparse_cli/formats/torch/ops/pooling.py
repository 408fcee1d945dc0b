"""Pooling: every position of a window may pass, in max pooling too, since the arg max depends on the input."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.convolution import spread
from effsparse_cli.formats.torch.values import Arg, Lowered
from effsparse_cli.graph import windows

operator = family("pooling", steps=costs.spatial_axes)


def pool(low: Lowering, x: Arg, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, rank: int) -> int:
    """The traced result says the output size, ceil mode and all."""
    node = low.node(x)
    kernels = spread(kernel, rank)
    strides = spread(stride, rank) if stride else kernels
    sizes, out = low.b.shape(node)[-rank:], low.call.shape[-rank:]
    tables = [
        windows.sliding_to(o, size, k, s, d, p)
        for o, size, k, s, d, p in zip(
            out, sizes, kernels, strides, spread(dilation, rank), spread(padding, rank), strict=True
        )
    ]
    return low.b.window(node, (*(None,) * (len(low.b.shape(node)) - rank), *tables))


def _rank(name: str) -> int:
    return next(int(d) for d in "123" if f"{d}d" in name)


@operator("max_pool1d", "max_pool2d", "max_pool3d", "mkldnn_max_pool2d", "quantized_max_pool2d")
def max_pool(low: Lowering, x: Arg, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, *_: Arg) -> int:
    return pool(low, x, kernel, stride, padding, dilation, _rank(low.call.name))


@operator("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    low: Lowering, x: Arg, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, *_: Arg
) -> Lowered:
    y = pool(low, x, kernel, stride, padding, dilation, _rank(low.call.name))
    return [y, low.b.join(y, keeps_zero=False)]


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(low: Lowering, x: Arg, kernel: Arg, stride: Arg, padding: Arg, *_: Arg) -> int:
    return pool(low, x, kernel, stride, padding, 1, _rank(low.call.name))


@operator(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip
def adaptive_pool(low: Lowering, x: Arg, size: Sequence[int]) -> Lowered:
    node, rank = low.node(x), _rank(low.call.name)
    shape = low.b.shape(node)
    tables = [windows.adaptive(n, out) for n, out in zip(shape[-rank:], low.call.shape[-rank:], strict=True)]
    y = low.b.window(node, (*(None,) * (len(shape) - rank), *tables))
    return [y, low.b.join(y, keeps_zero=False)] if len(low.call.results) > 1 else y
