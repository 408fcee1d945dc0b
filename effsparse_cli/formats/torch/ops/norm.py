"""Normalisations. Scales and shifts are per channel; a zero scale cuts its channel unless norms shall not cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import Norm, family
from effsparse_cli.formats.torch.ops.elementwise import passes
from effsparse_cli.formats.torch.values import Arg, Const, Lowered, nonzero
from effsparse_cli.graph import layers
from effsparse_cli.graph.primitives import Bools

operator = family("norm", result_size=costs.broadcast)


def scaled(low: Lowering, x: int, weight: Arg, bias: Arg, axis: int) -> int:
    """x * weight + bias along an axis; either may be a constant, live or absent."""
    cuts = not (isinstance(weight, Const) and passes(low, weight, norm=True))
    return layers.affine(low.b, x, _operand(low, weight) if cuts else None, _operand(low, bias), axis)


def _operand(low: Lowering, value: Arg) -> Bools | int | None:
    if value is None:
        return None
    return nonzero(value.tensor) if isinstance(value, Const) and value.emit is None else low.node(value)


@operator("layer_norm", "native_layer_norm")
def layer_norm(low: Lowering, x: Arg, shape: Sequence[int], weight: Arg, bias: Arg, *_: Arg) -> Lowered:
    node = low.node(x)
    axes = range(-len(shape), 0)
    y = scaled(low, low.b.mix(node, axes), weight, bias, -len(shape))
    return _with_statistics(low, y, node)


@operator("rms_norm", "_fused_rms_norm")
def rms_norm(low: Lowering, x: Arg, shape: Sequence[int], weight: Arg, *_: Arg) -> Lowered:
    node = low.node(x)
    y = scaled(low, layers.rms_norm(low.b, node, range(-len(shape), 0)), weight, None, -len(shape))
    return _with_statistics(low, y, node)


def _with_statistics(low: Lowering, y: int, x: int) -> Lowered:
    """Native forms also give mean and deviation: of size 1 where they reduced."""
    if len(low.call.results) == 1:
        return y
    statistics = []
    for result in low.call.results[1:]:
        axes = [i for i, (n, m) in enumerate(zip(result.shape, low.b.shape(x), strict=True)) if n != m]
        statistics.append(low.b.reduce(x, axes, keepdim=True, keeps_zero=False))
    return [y, *statistics]


@operator("group_norm")
def group_norm(low: Lowering, x: Arg, groups: int, weight: Arg, bias: Arg, *_: Arg) -> int:
    return _grouped(low, low.node(x), groups, weight, bias)


@operator("native_group_norm")
def native_group_norm(
    low: Lowering, x: Arg, weight: Arg, bias: Arg, n: int, c: int, hw: int, groups: int, eps: float
) -> list[int]:
    node = low.node(x)
    per_group = low.b.reduce(low.b.reshape(node, (n, groups, -1)), [2], keepdim=False, keeps_zero=False)
    return [_grouped(low, node, groups, weight, bias), per_group, per_group]


def _grouped(low: Lowering, x: int, groups: int, weight: Arg, bias: Arg) -> int:
    return scaled(low, layers.group_norm(low.b, x, groups), weight, bias, 1)


@operator("instance_norm")
def instance_norm(
    low: Lowering, x: Arg, weight: Arg, bias: Arg, mean: Arg, var: Arg, use_input_stats: bool, *_: Arg
) -> int:
    node = low.node(x)
    if use_input_stats:
        return _grouped(low, node, low.b.shape(node)[1], weight, bias)
    return _from_running(low, node, weight, bias, mean)


@operator("batch_norm", "native_batch_norm", "cudnn_batch_norm", norm=Norm(training=5))
@operator("_native_batch_norm_legit", "miopen_batch_norm")
def batch_norm(low: Lowering, x: Arg, weight: Arg, bias: Arg, mean: Arg, var: Arg, training: bool, *_: Arg) -> Lowered:
    """With stored statistics per channel; with those of the batch everything in a channel mixes."""
    node = low.node(x)
    if not training and isinstance(mean, Const):
        return _first(low, _from_running(low, node, weight, bias, mean))
    axes = [i for i in range(len(low.b.shape(node))) if i != 1]
    return _first(low, scaled(low, low.b.mix(node, axes), weight, bias, 1))


@operator("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(low: Lowering, x: Arg, weight: Arg, bias: Arg, *_: Arg) -> Lowered:
    node = low.node(x)
    axes = [i for i in range(len(low.b.shape(node))) if i != 1]
    return _first(low, scaled(low, low.b.mix(node, axes), weight, bias, 1))


@operator("_native_batch_norm_legit_no_training", norm=Norm())
@operator("_batch_norm_no_update")
def batch_norm_in_evaluation(low: Lowering, x: Arg, weight: Arg, bias: Arg, mean: Arg, *_: Arg) -> Lowered:
    return _first(low, _from_running(low, low.node(x), weight, bias, mean))


def _first(low: Lowering, y: int) -> Lowered:
    """The other results of native forms are statistics that evaluation leaves alone."""
    others = [low.b.constant(True, r.shape) for r in low.call.results[1:]]
    return [y, *others] if others else y


def _from_running(low: Lowering, x: int, weight: Arg, bias: Arg, mean: Arg) -> int:
    """(x - mean) * gamma + beta: the shift is there where beta is, or where a mean passes the scale."""
    if not all(v is None or isinstance(v, Const) for v in (weight, bias, mean)):
        return scaled(low, low.b.join(x, keeps_zero=False), weight, bias, 1)
    channels = low.b.shape(x)[1]
    gamma = _known(weight, True, channels)
    shift = _known(bias, False, channels) | (_known(mean, False, channels) & gamma)
    return layers.affine(low.b, x, gamma if low.options.norms_cut else None, shift, 1)


def _known(value: Const | None, default: bool, channels: int) -> Bools:
    return np.full(channels, default) if value is None else nonzero(value.tensor)


@operator("_weight_norm", "_weight_norm_interface", result_size=costs.total)
def weight_norm(low: Lowering, v: Arg, g: Arg, dim: int = 0) -> Lowered:
    """g * v / norm(v), the norm over all axes but `dim`."""
    node = low.node(v)
    rank = len(low.b.shape(node))
    axes = [axis for axis in range(rank) if dim == -1 or axis != dim % rank]
    norm = low.b.join(low.b.reduce(node, axes, keepdim=True), keeps_zero=False)
    y = low.b.times(low.b.times(node, norm), low.node(g))
    return [y, norm] if len(low.call.results) > 1 else y
