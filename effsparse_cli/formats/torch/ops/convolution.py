"""Convolutions of any dimension, transposed ones too. A stored kernel is a weight; one that is computed from the input
or not stored is multiplied with the unfolded input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import Contraction, family
from effsparse_cli.formats.torch.ops.contraction import add_bias
from effsparse_cli.formats.torch.values import Arg, ConstantValue
from effsparse_cli.graph import windows
from effsparse_cli.graph.contraction import convolve_by_value
from effsparse_cli.graph.primitives import Taps

operator = family(
    "convolution", contracts=True, uses_weights=True, contraction=Contraction(0, 1, 2, spatial=True), steps=costs.kernel
)


def per_axis(value: Arg, rank: int) -> list[int]:
    """Return one number for each axis."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * rank if len(values) == 1 else values


@operator("conv1d", "conv2d", "conv3d")
def convolve(
    call: OpCall, x: Arg, weight: Arg, bias: Arg, stride: Arg, padding: Arg, dilation: Arg, groups: int
) -> int:
    kernel = call.shape_of(weight)[2:]
    rank = len(kernel)
    sizes = call.b.shape(call.node(x))[-rank:]
    tables = []
    for size, k, s, d, (before, after) in zip(
        sizes, kernel, per_axis(stride, rank), per_axis(dilation, rank), _pads(padding, kernel, dilation), strict=True
    ):
        tables.append(windows.sliding(size, k, stride=s, dilation=d, before=before, after=after))
    return _apply(call, x, weight, bias, tables, groups, lambda elements: elements)


def _pads(padding: Arg, kernel: Sequence[int], dilation: Arg) -> list[tuple[int, int]]:
    rank = len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, per_axis(dilation, rank), strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [(p, p) for p in per_axis(0 if padding == "valid" else padding, rank)]


@operator("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolve_transposed(
    call: OpCall, x: Arg, weight: Arg, bias: Arg, stride: Arg, padding: Arg, extra: Arg, groups: int, dilation: Arg
) -> int:
    """The weight is stored as [in, out / groups, *kernel]; output_padding only makes the result longer."""
    c, n, *kernel = call.shape_of(weight)
    rank = len(kernel)
    sizes = call.b.shape(call.node(x))[-rank:]
    tables = [
        windows.transposed(out, size, k, stride=s, dilation=d, before=p)
        for out, size, k, s, d, p in zip(
            call.shape[-rank:], sizes, kernel, *(per_axis(v, rank) for v in (stride, dilation, padding)), strict=True
        )
    ]

    def arrange(elements: torch.Tensor) -> torch.Tensor:
        split = elements.reshape(groups, c // groups, n, *kernel)
        return split.transpose(1, 2).reshape(groups * n, c // groups, *kernel)

    return _apply(call, x, weight, bias, tables, groups, arrange)


@operator("convolution", "_convolution", "convolution_overrideable")
def convolution(
    call: OpCall, x: Arg, weight: Arg, bias: Arg, stride: Arg, padding: Arg, dilation: Arg, transposed: bool,
    extra: Arg, groups: int, *_: Arg,
) -> int:  # fmt: skip
    """The operator that all convolutions are decomposed to."""
    if transposed:
        return convolve_transposed(call, x, weight, bias, stride, padding, extra, groups, dilation)
    return convolve(call, x, weight, bias, stride, padding, dilation, groups)


def _apply(call: OpCall, x: Arg, w: Arg, bias: Arg, tables: list[Taps], groups: int, arrange: Arg) -> int:
    node = call.node(x)
    terms = []
    if isinstance(w, ConstantValue) and w.parts:
        for weight in call.weights(w, arrange, f"conv{len(tables)}d"):
            terms.append(call.b.contract(node, weight, tables, groups))
        w = call.not_stored(w)
    if w is not None:
        terms.append(_by_product(call, node, w, tables, groups, arrange))
    y = call.b.join(*terms) if len(terms) > 1 else terms[0]
    return add_bias(call, y, bias, after=len(tables))


def _by_product(call: OpCall, x: int, w: Arg, tables: list[Taps], groups: int, arrange: Arg) -> int:
    """Multiply with a kernel that is computed or not stored."""
    kernel = call.node(w)
    shape = call.b.shape(kernel)
    order = arrange(torch.arange(int(np.prod(shape))).reshape(shape)).numpy()
    return convolve_by_value(call.b, x, call.b.gather(kernel, order), tables, groups)
