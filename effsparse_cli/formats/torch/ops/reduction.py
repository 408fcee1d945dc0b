"""Reductions, softmax, cumulative sums, sorting: along their axes every result depends on every element."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, LiveValue, Result
from effsparse_cli.graph import layers

operator = family("reduction", result_size=costs.twice_total)


def _axes(dim: Arg) -> list[int] | None:
    """Return the axes; None and an empty list both mean all of them."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    return list(dim) if isinstance(dim, Sequence) else [dim]


@operator(
    "sum.default", "mean.default", "prod.default", "amax.default", "amin.default", "max.default", "min.default",
    "median.default", "nanmedian.default", "std.default", "var.default", "any.default", "count_nonzero.default",
    "norm.Scalar", "nansum.default", "sum", "mean", "prod", "nansum", "nanmean", "amax", "amin", "any", "std", "var",
    "count_nonzero", "norm", "linalg_vector_norm", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype",
    "var_mean", "std_mean", "aminmax", "max.dim", "min.dim", "median.dim", "mode", "kthvalue", "nanmedian.dim",
)  # fmt: skip
@operator("all.default", "logsumexp", "argmax", "argmin", "all", keeps_zero=False)
def reduce(call: OpCall, x: Arg, *_: Arg) -> Result:
    """Reduce over axes to the traced shape, in which they have size 1 or are absent."""
    node = call.node(x)
    if call.b.shape(node):
        y = call.b.reduce(node, _axes(call.argument("dim")), keepdim=True, keeps_zero=call.keeps_zero)
        y = call.b.reshape(y, call.shape)
    else:
        y = call.b.join(node, keeps_zero=call.keeps_zero)
    return [y, y] if call.name in ("var_mean", "std_mean", "aminmax") else call.with_index(y)


@operator("cumsum", "cumprod", "cummax", "cummin")
@operator("logcumsumexp", "argsort", keeps_zero=False)
def cumulate(call: OpCall, x: Arg, *_: Arg) -> Result:
    return call.with_index(call.b.mix(call.node(x), [call.argument("dim")], keeps_zero=call.keeps_zero))


@operator("sort", "topk")
def order(call: OpCall, x: Arg, *_: Arg) -> Result:
    """The largest elements may come from anywhere."""
    dim = call.argument("dim")
    return call.with_index(call.b.slice(call.b.mix(call.node(x), [dim]), dim, 0, call.shape[dim]))


@operator("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax")
def softmax(call: OpCall, x: LiveValue, dim: int, *_: Arg) -> int:
    """Nothing passes where scores are blocked."""
    allowed = None if x.blocked is None else (~x.blocked).numpy()
    y = layers.softmax(call.b, call.node(x), dim, allowed)
    return call.b.join(y, keeps_zero=False) if "log" in call.name else y


@operator("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fftn", "fft_ifftn", "fft_fft2", "fft_ifft2", "fft_rfft2",
        "fft_irfft2", "fft_rfftn", "fft_irfftn", "_fft_c2c", "_fft_r2c", "_fft_c2r", result_size=None)  # fmt: skip
def fourier(call: OpCall, x: Arg, *args: Arg) -> int:
    """Every frequency depends on everything along the axes, whose sizes may change."""
    dim = call.argument("dim")
    node = call.node(x)
    default = range(-2, 0) if call.name.endswith("2") else range(len(call.b.shape(node)))
    axes = list(default) if dim is None else _axes(dim)
    return call.b.expand(call.b.reduce(node, axes, keepdim=True), call.shape)


@operator("cdist", "_cdist_forward", result_size=None, steps=costs.longest_axis)
@operator("_euclidean_dist", result_size=None)
def cdist(call: OpCall, a: Arg, b: Arg, *_: Arg) -> int:
    rows = call.b.reduce(call.node(a), [-1], keepdim=True)
    columns = call.b.reduce(call.node(b), [-1], keepdim=True)
    rank = len(call.b.shape(columns))
    return call.b.join(rows, call.b.transpose(columns, rank - 2, rank - 1))


@operator("cosine_similarity", result_size=None)
def cosine_similarity(call: OpCall, a: Arg, b: Arg, dim: int, eps: float) -> int:
    """The product of the two divided by their lengths, which depend on everything along the axis."""
    x, y = call.node(a), call.node(b)
    product = call.b.reduce(call.b.times(x, y), [dim], keepdim=True)
    lengths = call.b.join(*(call.b.reduce(v, [dim], keepdim=True) for v in (x, y)), keeps_zero=False)
    return call.b.reshape(call.b.times(product, lengths), call.shape)
