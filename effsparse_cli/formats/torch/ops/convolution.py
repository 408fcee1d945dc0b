"""Convolutions of any dimension, plain and transposed. A kernel that is stored is a weight; one that is
computed from the input, or not stored, meets the unfolded input in a product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import Operands, family
from effsparse_cli.formats.torch.ops.contraction import add_bias, shape_of
from effsparse_cli.formats.torch.values import Arg, Const
from effsparse_cli.graph import windows
from effsparse_cli.graph.convolution import convolve_by_value
from effsparse_cli.graph.primitives import Taps

operator = family(
    "convolution", contracts=True, uses_weights=True, operands=Operands(0, 1, 2, spatial=True), steps=costs.kernel
)


def spread(value: Arg, rank: int) -> list[int]:
    """A number or a list, per axis."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * rank if len(values) == 1 else values


@operator("conv1d", "conv2d", "conv3d")
def convolve(
    low: Lowering, x: Arg, weight: Arg, bias: Arg, stride: Arg, padding: Arg, dilation: Arg, groups: int
) -> int:
    kernel = shape_of(low, weight)[2:]
    rank = len(kernel)
    sizes = low.b.shape(low.node(x))[-rank:]
    tables = []
    for size, k, s, d, (before, after) in zip(
        sizes, kernel, spread(stride, rank), spread(dilation, rank), _pads(padding, kernel, dilation), strict=True
    ):
        tables.append(windows.sliding(size, k, s, d, before, after))
    return _apply(low, x, weight, bias, tables, groups, lambda ghost: ghost)


def _pads(padding: Arg, kernel: Sequence[int], dilation: Arg) -> list[tuple[int, int]]:
    rank = len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, spread(dilation, rank), strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [(p, p) for p in spread(0 if padding == "valid" else padding, rank)]


@operator("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolve_transposed(
    low: Lowering, x: Arg, weight: Arg, bias: Arg, stride: Arg, padding: Arg, extra: Arg, groups: int, dilation: Arg
) -> int:
    """The weight is stored [in, out / groups, *kernel]; output_padding only makes the result longer."""
    c, n, *kernel = shape_of(low, weight)
    rank = len(kernel)
    sizes = low.b.shape(low.node(x))[-rank:]
    tables = [
        windows.transposed(out, size, k, s, d, p)
        for out, size, k, s, d, p in zip(
            low.call.shape[-rank:], sizes, kernel, *(spread(v, rank) for v in (stride, dilation, padding)), strict=True
        )
    ]

    def arrange(ghost: torch.Tensor) -> torch.Tensor:
        split = ghost.reshape(groups, c // groups, n, *kernel)
        return split.transpose(1, 2).reshape(groups * n, c // groups, *kernel)

    return _apply(low, x, weight, bias, tables, groups, arrange)


@operator("convolution", "_convolution", "convolution_overrideable")
def convolution(
    low: Lowering, x: Arg, weight: Arg, bias: Arg, stride: Arg, padding: Arg, dilation: Arg, transposed: bool,
    extra: Arg, groups: int, *_: Arg,
) -> int:  # fmt: skip
    """What all of them are below."""
    if transposed:
        return convolve_transposed(low, x, weight, bias, stride, padding, extra, groups, dilation)
    return convolve(low, x, weight, bias, stride, padding, dilation, groups)


def _apply(low: Lowering, x: Arg, w: Arg, bias: Arg, tables: list[Taps], groups: int, arrange: Arg) -> int:
    node = low.node(x)
    terms = []
    if isinstance(w, Const) and w.parts:
        for weight in low.weights(w, arrange, f"conv{len(tables)}d"):
            terms.append(low.b.contract(node, weight, tables, groups))
        w = low.literal(w)
    if w is not None:
        terms.append(_by_product(low, node, w, tables, groups, arrange))
    y = low.b.join(*terms) if len(terms) > 1 else terms[0]
    return add_bias(low, y, bias, after=len(tables))


def _by_product(low: Lowering, x: int, w: Arg, tables: list[Taps], groups: int, arrange: Arg) -> int:
    """The kernel is computed, or a constant that is not stored."""
    kernel = low.node(w)
    shape = low.b.shape(kernel)
    order = arrange(torch.arange(int(np.prod(shape))).reshape(shape)).numpy()
    return convolve_by_value(low.b, x, low.b.gather(kernel, order), tables, groups)
