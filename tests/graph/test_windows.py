"""Tables of taps against torch: a tap reads a position exactly if the gradient there is not zero."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from effsparse_cli.graph import windows
from effsparse_cli.graph.primitives import Taps


def reads(table: Taps, size: int) -> list[set[int]]:
    """Return the input positions that each output position reads."""
    return [{int(i) for i in column if i >= 0} for column in table.T]


def torch_reads(function: object, size: int) -> list[set[int]]:
    x = torch.ones(1, 1, size, dtype=torch.float64, requires_grad=True)
    y = function(x).reshape(-1)  # type: ignore[operator]
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0].reshape(-1) for value in y]
    return [set(torch.nonzero(row).reshape(-1).tolist()) for row in rows]


GEOMETRIES = [g for g in itertools.product((5, 8), (1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 2)) if g[3] * (g[1] - 1) < g[0]]


@pytest.mark.parametrize(("size", "kernel", "stride", "dilation", "pad"), GEOMETRIES)
def test_sliding(size: int, kernel: int, stride: int, dilation: int, pad: int) -> None:
    weight = torch.ones(1, 1, kernel, dtype=torch.float64)
    expected = torch_reads(lambda x: F.conv1d(x, weight, stride=stride, dilation=dilation, padding=pad), size)
    assert (
        reads(windows.sliding(size, kernel, stride=stride, dilation=dilation, before=pad, after=pad), size) == expected
    )


@pytest.mark.parametrize(("size", "kernel", "stride", "dilation", "pad"), GEOMETRIES)
def test_transposed(size: int, kernel: int, stride: int, dilation: int, pad: int) -> None:
    weight = torch.ones(1, 1, kernel, dtype=torch.float64)
    out = (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1
    if out < 1:
        return
    expected = torch_reads(lambda x: F.conv_transpose1d(x, weight, stride=stride, dilation=dilation, padding=pad), size)
    assert reads(windows.transposed(out, size, kernel, stride=stride, dilation=dilation, before=pad), size) == expected


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(("size", "kernel", "stride", "dilation", "pad"), [g for g in GEOMETRIES if 2 * g[4] <= g[1]])
def test_pooling(size: int, kernel: int, stride: int, dilation: int, pad: int, ceil: bool) -> None:
    x = torch.zeros(1, 1, size)
    expected = F.max_pool1d(x, kernel, stride, pad, dilation, ceil_mode=ceil).shape[-1]
    out = windows.pooled_size(size, kernel, stride=stride, dilation=dilation, before=pad, after=pad, ceil=ceil)
    assert out == expected
    assert all(reads(windows.sliding_to(out, size, kernel, stride=stride, dilation=dilation, before=pad), size))


@pytest.mark.parametrize(("size", "out"), list(itertools.product((1, 4, 7, 10), (1, 2, 3, 5, 7))))
def test_adaptive(size: int, out: int) -> None:
    expected = torch_reads(lambda x: F.adaptive_avg_pool1d(x, out), size)
    assert reads(windows.adaptive(size, out), size) == expected


def test_zero_interpolation_weights_are_not_read() -> None:
    table = windows.weighted(np.array([[0, 1], [1, 2]]), np.array([[1.0, 0.5], [0.0, 0.5]]), size=2)
    assert table.tolist() == [[0, 1], [-1, 1]]
