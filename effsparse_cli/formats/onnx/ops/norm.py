"""Norms. Scales are gates (a zero cuts, unless the user disables that), shifts are constants."""

from __future__ import annotations

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.operators import MICROSOFT, Result, operator
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.formats.operands import Norm
from effsparse_cli.graph import layers, windows
from effsparse_cli.graph.primitives import Bools, Taps


def affine(c: OpCall, x: int, scale: int, shift: int | None, axis: int) -> int:
    """Scale and shift by inputs. Vectors are aligned at `axis`, other constants at the last axis."""
    cut = c.norms_cut or c.is_live(scale)
    of_scale, of_shift = (_operand(c, i, len(c.b.shape(x))) for i in (scale if cut else None, shift))
    return layers.affine(c.b, x, scale=of_scale, shift=of_shift, axis=axis)


def _operand(c: OpCall, i: int | None, rank: int) -> Bools | int | None:
    value = c.get(i) if i is not None else None
    if isinstance(value, ConstantValue):
        array = nonzero(value.array)
        return array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim > 1 else array
    return value.node if isinstance(value, LiveValue) else None


@operator("BatchNormalization", primitives="Product, Join", constants="computed", norm=Norm(), positions="batch_norm")
def batch_norm(c: OpCall) -> Result:
    """x * scale / deviation plus a shift per channel. In training mode the statistics are those of the batch."""
    x = c.x()
    results: list[int | None] = [None] * len(c.node.output)
    if c.attr("training_mode", 0):
        axes = [0, *range(2, len(c.shape()))]
        mixed = c.b.mix(x, axes)
        results[1:] = [c.b.join(c.b.reduce(x, axes, keepdim=False), c.x(3 + i)) for i in range(len(results) - 1)]
        results[0] = affine(c, mixed, 1, 2, 1)
        return results
    if all(c.constant(i) is not None for i in range(1, 5)):
        scale, bias, mean = (nonzero(c.array(i)) for i in (1, 2, 3))
        shift = bias | (mean & scale) if c.norms_cut else bias | mean
        x = layers.affine(c.b, x, scale=scale if c.norms_cut else None, shift=shift, axis=1)
    else:
        # (x - mean) / deviation * scale + bias, with every statistic an input
        ones = (1,) * (len(c.shape()) - 2)
        part = [c.b.reshape(c.x(i), (1, -1, *ones)) for i in range(1, 5)]
        x = c.b.divide(c.b.join(x, part[2]), part[3])
        x = c.b.join(c.b.times(x, part[0]), part[1])
    results[0] = x
    return results


@operator("LayerNormalization", primitives="Mix, Product, Join", constants="computed", positions="layer_norm")
def layer_norm(c: OpCall) -> Result:
    x = c.x()
    axes = range(c.attr("axis", -1) % len(c.shape()), len(c.shape()))
    y = affine(c, c.b.mix(x, axes), 1, 2, -1)  # scale and shift broadcast from the last axis
    statistics = [c.b.reduce(x, axes, keepdim=True, keeps_zero=keeps) for keeps in (True, False)]
    return [y, *statistics][: len(c.node.output)]


@operator(
    "RMSNormalization", "SimplifiedLayerNormalization",
    primitives="Mix, Product", constants="computed", positions="layer_norm",
)  # fmt: skip
@operator("SimplifiedLayerNormalization", domain=MICROSOFT, primitives="Mix, Product")
def rms_norm(c: OpCall) -> Result:
    axes = range(c.attr("axis", -1) % len(c.shape()), len(c.shape()))
    return [affine(c, layers.rms_norm(c.b, c.x(), axes), 1, None, -1)]


@operator(
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT, primitives="Join, Mix, Product"
)
def skip_layer_norm(c: OpCall) -> Result:
    """Inputs: x, skip, scale, shift (not if simplified), bias. The first output is normalized, the fourth the sum."""
    simplified = c.node.op_type.startswith("SkipSimplified")
    bias = 3 if simplified else 4
    total = c.b.join(c.x(0), c.x(1), *([c.x(bias)] if c.has(bias) else []))
    axis = len(c.b.shape(total)) - 1
    if simplified:
        y = affine(c, layers.rms_norm(c.b, total, (axis,)), 2, None, axis)
    else:
        y = affine(c, c.b.mix(total, (axis,)), 2, 3, axis)
    mean, deviation = (c.b.reduce(total, (axis,), keepdim=True, keeps_zero=keeps) for keeps in (True, False))
    return [y, mean, deviation, total][: max(len(c.node.output), 1)]


@operator("InstanceNormalization", primitives="Mix, Product, Join", constants="computed", positions="instance_norm")
def instance_norm(c: OpCall) -> Result:
    return affine(c, layers.group_norm(c.b, c.x(), c.shape()[1]), 1, 2, 1)


@operator("GroupNormalization", primitives="Mix, Product, Join", constants="computed")
def group_norm(c: OpCall) -> Result:
    """Scale and shift are per channel; before opset 21, per group."""
    groups, channels = c.attr("num_groups"), c.shape()[1]
    y = layers.group_norm(c.b, c.x(), groups)
    if c.shape(1)[0] == channels:
        return affine(c, y, 1, 2, 1)
    split = c.b.reshape(y, (c.shape()[0], groups, -1))
    return c.b.reshape(affine(c, split, 1, 2, 1), c.shape())


@operator("GroupNorm", "SkipGroupNorm", domain=MICROSOFT, primitives="Mix, Product, Join")
def fused_group_norm(c: OpCall) -> Result:
    """Group norm with channels last. The skip variant first adds a second image and a bias."""
    x = c.x()
    if c.node.op_type == "SkipGroupNorm":
        x = c.b.join(x, *(c.x(i) for i in (3, 4) if c.has(i)))
    last = c.attr("channels_last", 1)
    rank = len(c.b.shape(x))
    y = c.b.permute(x, (0, rank - 1, *range(1, rank - 1))) if last else x
    y = affine(c, layers.group_norm(c.b, y, c.attr("groups")), 1, 2, 1)
    y = c.b.permute(y, (0, *range(2, rank), 1)) if last else y
    return [c.b.join(y), x][: max(len(c.node.output), 1)]


@operator("LpNormalization", primitives="Mix, Product", constants="computed", positions="lp_norm")
def lp_norm(c: OpCall) -> Result:
    return _over_norm(c, c.b.reduce(c.x(), (c.attr("axis", -1),), keepdim=True))


@operator("MeanVarianceNormalization", primitives="Mix", constants="computed")
def mean_variance_norm(c: OpCall) -> Result:
    """Zero divided by a deviation of zero is NaN."""
    return c.b.mix(c.x(), c.attr("axes") or (0, 2, 3), keeps_zero=False)


@operator("LRN", primitives="Window, Product")
def local_response_norm(c: OpCall) -> Result:
    """Divide each channel by a sum over its neighbors."""
    size, channels = c.attr("size"), c.shape()[1]
    before = (size - 1) // 2
    taps: list[Taps | None] = [None] * len(c.shape())
    taps[1] = windows.sliding_to(channels, channels, size, before=before)
    return _over_norm(c, c.b.window(c.x(), taps))


def _over_norm(c: OpCall, norm: int) -> int:
    return c.b.times(c.x(), c.b.join(norm, keeps_zero=False))
