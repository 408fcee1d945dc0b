"""Pooling: every position of its window reaches an output, in max pooling too, where the input decides."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.convolution import per_axis
from effsparse_cli.formats.torch.values import Arg, Result
from effsparse_cli.graph import windows
from effsparse_cli.graph.primitives import Taps

operator = family("pooling", steps=costs.spatial_axes)


@operator(
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "mkldnn_max_pool2d", "quantized_max_pool2d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
)  # fmt: skip
def pool(call: OpCall, x: Arg, kernel: Arg, stride: Arg, padding: Arg, *_: Arg) -> Result:
    """Pool to the traced output size, which includes ceil mode."""
    rank, dilation = _rank(call), call.argument("dilation")
    kernels = per_axis(kernel, rank)
    strides = per_axis(stride, rank) if stride else kernels
    dilations = per_axis(1 if dilation is None else dilation, rank)
    sizes = zip(call.shape[-rank:], call.shape_of(x)[-rank:], strict=True)
    windowed = zip(sizes, kernels, strides, dilations, per_axis(padding, rank), strict=True)
    tables = [windows.sliding_to(out, n, k, stride=s, dilation=d, before=p) for (out, n), k, s, d, p in windowed]
    return _pooled(call, x, tables)


@operator(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip
def adaptive_pool(call: OpCall, x: Arg, size: Sequence[int]) -> Result:
    rank = _rank(call)
    sizes = zip(call.shape_of(x)[-rank:], call.shape[-rank:], strict=True)
    return _pooled(call, x, [windows.adaptive(n, out) for n, out in sizes])


def _rank(call: OpCall) -> int:
    return next(int(d) for d in "123" if f"{d}d" in call.name)


def _pooled(call: OpCall, x: Arg, tables: list[Taps]) -> Result:
    """Pool the last axes."""
    node = call.node(x)
    return call.with_index(call.b.window(node, (*(None,) * (len(call.b.shape(node)) - len(tables)), *tables)))
