"""Operators along axes: sums and their kin, softmax, cumulative and sorting ones. Along the axes everything
depends on everything."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Live
from effsparse_cli.graph import layers

operator = family("reduction", result_size=costs.twice_total)


def _axes(dim: Arg) -> list[int] | None:
    """None and an empty list both mean all axes."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    return list(dim) if isinstance(dim, Sequence) else [dim]


def _to_result(low: Lowering, x: Arg, dim: Arg) -> int:
    """Reduce over the axes; whether they stay with size 1 is in the traced shape."""
    node = low.node(x)
    if not low.b.shape(node):
        return low.b.join(node, keeps_zero=low.call.keeps_zero)
    y = low.b.reduce(node, _axes(dim), keepdim=True, keeps_zero=low.call.keeps_zero)
    return low.b.reshape(y, low.call.shape)


@operator("sum.default", "mean.default", "prod.default", "amax.default", "amin.default", "max.default", "min.default",
        "median.default", "nanmedian.default", "std.default", "var.default", "any.default", "count_nonzero.default",
        "norm.Scalar", "nansum.default")  # fmt: skip
@operator("all.default", keeps_zero=False)
def reduce_all(low: Lowering, x: Arg, dim: Arg = None, *_: Arg) -> int:
    if low.call.name in ("amax", "amin", "count_nonzero", "nansum"):
        return _to_result(low, x, dim)
    return _to_result(low, x, None)


@operator("sum", "mean", "prod", "nansum", "nanmean", "amax", "amin", "any", "std", "var", "count_nonzero")
@operator("logsumexp", "argmax", "argmin", "all", keeps_zero=False)
def reduce_axes(low: Lowering, x: Arg, dim: Arg, *_: Arg) -> int:
    return _to_result(low, x, dim)


@operator("norm", "linalg_vector_norm", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype")
def norm(low: Lowering, x: Arg, order: Arg, dim: Arg = None, *_: Arg) -> int:
    return _to_result(low, x, dim if isinstance(dim, Sequence | int) else None)


@operator("var_mean", "std_mean", "aminmax")
def two_reductions(low: Lowering, x: Arg, dim: Arg = None, *_: Arg) -> list[int]:
    y = _to_result(low, x, None if isinstance(dim, bool) else dim)
    return [y, y]


@operator("max.dim", "min.dim", "median.dim", "mode", "kthvalue", "nanmedian.dim")
def reduce_with_index(low: Lowering, x: Arg, dim: Arg, *rest: Arg) -> list[int]:
    axis = rest[0] if low.call.name == "kthvalue" else dim
    y = _to_result(low, x, axis)
    return [y, low.b.join(y, keeps_zero=False)]


@operator("cumsum", "cumprod")
@operator("logcumsumexp", "argsort", keeps_zero=False)
def cumulate(low: Lowering, x: Arg, *args: Arg) -> int:
    dim = next(a for a in reversed(args[:2]) if isinstance(a, int) and not isinstance(a, bool))
    return low.b.mix(low.node(x), [dim], keeps_zero=low.call.keeps_zero)


@operator("cummax", "cummin")
def cumulate_with_index(low: Lowering, x: Arg, dim: int) -> list[int]:
    y = low.b.mix(low.node(x), [dim])
    return [y, low.b.join(y, keeps_zero=False)]


@operator("sort", "topk")
def order(low: Lowering, x: Arg, *args: Arg) -> list[int]:
    """The largest few may come from anywhere."""
    names = [a.name for a in low.call.target._schema.arguments]
    dim = low.call.args[names.index("dim")]
    y = low.b.slice(low.b.mix(low.node(x), [dim]), dim, 0, low.call.shape[dim])
    return [y, low.b.join(y, keeps_zero=False)]


@operator("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax")
def softmax(low: Lowering, x: Live, dim: int, *_: Arg) -> int:
    """Nothing passes where the scores are blocked."""
    allowed = None if x.blocked is None else (~x.blocked).numpy()
    y = layers.softmax(low.b, low.node(x), dim, allowed)
    return low.b.join(y, keeps_zero=False) if "log" in low.call.name else y


@operator("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fftn", "fft_ifftn", "fft_fft2", "fft_ifft2", "fft_rfft2",
        "fft_irfft2", "fft_rfftn", "fft_irfftn", "_fft_c2c", "_fft_r2c", "_fft_c2r", result_size=None)  # fmt: skip
def fourier(low: Lowering, x: Arg, *args: Arg) -> int:
    """Every frequency depends on everything along the axes, whose size may change."""
    names = [a.name for a in low.call.target._schema.arguments]
    dim = low.call.args[names.index("dim")]
    node = low.node(x)
    default = range(-2, 0) if low.call.name.endswith("2") else range(len(low.b.shape(node)))
    axes = list(default) if dim is None else _axes(dim)
    return low.b.expand(low.b.reduce(node, axes, keepdim=True), low.call.shape)


@operator("cdist", "_cdist_forward", result_size=None, steps=costs.longest_axis)
@operator("_euclidean_dist", result_size=None)
def cdist(low: Lowering, a: Arg, b: Arg, *_: Arg) -> int:
    rows = low.b.reduce(low.node(a), [-1], keepdim=True)
    columns = low.b.reduce(low.node(b), [-1], keepdim=True)
    rank = len(low.b.shape(columns))
    return low.b.join(rows, low.b.transpose(columns, rank - 2, rank - 1))


@operator("cosine_similarity", result_size=None)
def cosine_similarity(low: Lowering, a: Arg, b: Arg, dim: int, eps: float) -> int:
    """The product of the two, over their lengths, which see everything along the axis."""
    x, y = low.node(a), low.node(b)
    product = low.b.reduce(low.b.times(x, y), [dim], keepdim=True)
    lengths = low.b.join(*(low.b.reduce(v, [dim], keepdim=True) for v in (x, y)), keeps_zero=False)
    return low.b.reshape(low.b.times(product, lengths), low.call.shape)
