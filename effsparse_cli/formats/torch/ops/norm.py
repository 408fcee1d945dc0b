"""Norms. Scales and shifts are per channel; a zero scale cuts its channel unless norms do not cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.formats.operands import Norm
from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.ops.elementwise import passes
from effsparse_cli.formats.torch.tensors import nonzero
from effsparse_cli.formats.torch.values import Arg, ConstantValue, Result
from effsparse_cli.graph import layers
from effsparse_cli.graph.primitives import Bools

operator = family("norm", result_size=costs.broadcast)


def scale_and_shift(call: OpCall, x: int, weight: Arg, bias: Arg, axis: int) -> int:
    """Return x * weight + bias along an axis; both may be constant, live or absent."""
    cuts = not (isinstance(weight, ConstantValue) and passes(call, weight, norm=True))
    scale = _operand(call, weight) if cuts else None
    return layers.affine(call.b, x, scale=scale, shift=_operand(call, bias), axis=axis)


def _operand(call: OpCall, value: Arg) -> Bools | int | None:
    if value is None:
        return None
    return nonzero(value.tensor) if isinstance(value, ConstantValue) and value.lower is None else call.node(value)


@operator("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
def layer_norm(call: OpCall, x: Arg, shape: Sequence[int], weight: Arg, *_: Arg) -> Result:
    node, axes = call.node(x), range(-len(shape), 0)
    y = layers.rms_norm(call.b, node, axes) if "rms" in call.name else call.b.mix(node, axes)
    return _with_statistics(call, scale_and_shift(call, y, weight, call.argument("bias"), -len(shape)), node)


def _with_statistics(call: OpCall, y: int, x: int) -> Result:
    """Native forms also return mean and deviation, with size 1 along reduced axes."""
    if len(call.results) == 1:
        return y
    statistics = []
    for result in call.results[1:]:
        axes = [i for i, (n, m) in enumerate(zip(result.shape, call.b.shape(x), strict=True)) if n != m]
        statistics.append(call.b.reduce(x, axes, keepdim=True, keeps_zero=False))
    return [y, *statistics]


@operator("group_norm")
def group_norm(call: OpCall, x: Arg, groups: int, weight: Arg, bias: Arg, *_: Arg) -> int:
    return _grouped(call, call.node(x), groups, weight, bias)


@operator("native_group_norm")
def native_group_norm(
    call: OpCall, x: Arg, weight: Arg, bias: Arg, n: int, c: int, hw: int, groups: int, eps: float
) -> list[int]:
    node = call.node(x)
    per_group = call.b.reduce(call.b.reshape(node, (n, groups, -1)), [2], keepdim=False, keeps_zero=False)
    return [_grouped(call, node, groups, weight, bias), per_group, per_group]


def _grouped(call: OpCall, x: int, groups: int, weight: Arg, bias: Arg) -> int:
    return scale_and_shift(call, layers.group_norm(call.b, x, groups), weight, bias, 1)


@operator("instance_norm")
def instance_norm(call: OpCall, x: Arg, weight: Arg, bias: Arg, mean: Arg, *_: Arg) -> int:
    node = call.node(x)
    if call.argument("use_input_stats"):
        return _grouped(call, node, call.b.shape(node)[1], weight, bias)
    return _with_running_statistics(call, node, weight, bias, mean)


@operator("batch_norm", "native_batch_norm", "cudnn_batch_norm", norm=Norm(training=5))
@operator("_native_batch_norm_legit_no_training", norm=Norm())
@operator("_native_batch_norm_legit", "_native_batch_norm_legit.no_stats", "miopen_batch_norm", "_batch_norm_no_update")
def batch_norm(call: OpCall, x: Arg, weight: Arg, bias: Arg, *_: Arg) -> Result:
    """With stored statistics, as in forms without a flag for training, channels are scaled and shifted; with those of
    the batch, everything in a channel mixes."""
    node, mean, training = call.node(x), call.argument("running_mean"), call.argument("training")
    if training is None or (not training and isinstance(mean, ConstantValue)):
        return call.with_unused(_with_running_statistics(call, node, weight, bias, mean))
    axes = [i for i in range(len(call.b.shape(node))) if i != 1]
    return call.with_unused(scale_and_shift(call, call.b.mix(node, axes), weight, bias, 1))


def _with_running_statistics(call: OpCall, x: int, weight: Arg, bias: Arg, mean: Arg) -> int:
    """(x - mean) * gamma + beta: zeros are shifted where beta is not zero, or the mean and gamma are not."""
    if not all(v is None or isinstance(v, ConstantValue) for v in (weight, bias, mean)):
        return scale_and_shift(call, call.b.join(x, keeps_zero=False), weight, bias, 1)
    channels = call.b.shape(x)[1]
    gamma = _nonzero_or(weight, True, channels)
    shift = _nonzero_or(bias, False, channels) | (_nonzero_or(mean, False, channels) & gamma)
    return layers.affine(call.b, x, scale=gamma if call.norms_cut else None, shift=shift, axis=1)


def _nonzero_or(value: ConstantValue | None, default: bool, channels: int) -> Bools:
    return np.full(channels, default) if value is None else nonzero(value.tensor)


@operator("_weight_norm", "_weight_norm_interface", result_size=costs.total)
def weight_norm(call: OpCall, v: Arg, g: Arg, dim: int = 0) -> Result:
    """g * v / norm(v), the norm over all axes but `dim`."""
    node = call.node(v)
    rank = len(call.b.shape(node))
    axes = [axis for axis in range(rank) if dim == -1 or axis != dim % rank]
    norm = call.b.join(call.b.reduce(node, axes, keepdim=True), keeps_zero=False)
    y = call.b.times(call.b.times(node, norm), call.node(g))
    return [y, norm] if len(call.results) > 1 else y
