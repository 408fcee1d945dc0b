"""Resizing and sampling: a table of the positions that each output position reads, by onnx's formulas."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.operators import Extent, NotLoweredError, Result, operator
from effsparse_cli.graph import indexing
from effsparse_cli.graph.primitives import Taps
from effsparse_cli.graph.windows import weighted

Floats = NDArray[np.float64]


MOST_EVALUATED = 1 << 16
"""Number of elements: onnx's reference implementation computes them one by one."""


def _resized(c: OpCall) -> Extent:
    sizes = list(c.shape())
    axes = c.attr("axes") or range(len(sizes))
    wanted = c.few_ints(3)
    scales = c.attr("scales")
    for i in (2, 1):
        if scales is None and c.constant(i) is not None and math.prod(c.shape(i)) == len(axes):
            scales = [float(x) for x in c.array(i).reshape(-1)]
    for i, axis in enumerate(axes):
        sizes[axis] = wanted[i] if wanted else int(sizes[axis] * scales[i]) if scales else sizes[axis]
    return sizes


@operator(
    "Resize", "Upsample",
    primitives="Window", constants="computed", most_evaluated=MOST_EVALUATED, extent=_resized, positions="resize",
)  # fmt: skip
def resize(c: OpCall) -> Result:
    """Before opset 11, and in Upsample, there are scales in input 1 or an attribute, and no other inputs."""
    upsample = c.node.op_type == "Upsample"
    old = upsample or c.opset < 11
    rank = len(c.shape())
    axes = [a % rank for a in c.attr("axes") or range(rank)]
    scales, sizes = _given(c, 1 if old else 2), None if old else _given(c, 3)
    mode = c.attr("mode", "nearest")
    if upsample:
        mode = "linear" if mode in ("linear", "bilinear") else "nearest"
        if not c.has(1):
            scales = c.attr("scales") or [1.0, 1.0, c.attr("height_scale", 1.0), c.attr("width_scale", 1.0)]
    convention = "asymmetric" if old else c.attr("coordinate_transformation_mode", "half_pixel")
    region = [float(v) for v in c.array(1).reshape(-1)] if convention == "tf_crop_and_resize" else None
    if scales is None and sizes is None:
        raise NotLoweredError("neither scales nor sizes are given")
    outs, factors = _target(c, axes, scales, sizes)
    tables: list[Taps | None] = [None] * rank
    for i, axis in enumerate(axes):
        n, out, factor = c.shape()[axis], outs[i], factors[i]
        if n == out and factor == 1.0 and region is None:
            continue
        crop = (region[i], region[i + len(axes)]) if region else None
        position = _position(np.arange(out, dtype=float), n, out, factor, convention, crop)
        table = _taps(c, mode, position, n, factor, old)
        tables[axis] = np.where((position < 0) | (position > n - 1), -1, table) if region else table
    y = c.b.window(c.x(), tables)
    # Positions outside the region have the extrapolation value.
    return c.b.join(y, c.b.constant(True, (1,) * rank)) if region and c.attr("extrapolation_value", 0.0) else y


def _given(c: OpCall, i: int) -> list[float] | None:
    values = [float(v) for v in c.array(i).reshape(-1)] if c.has(i) else []
    return values or None


def _target(
    c: OpCall, axes: list[int], scales: list[float] | None, sizes: list[float] | None
) -> tuple[list[int], list[float]]:
    shape = c.shape()
    if sizes is None:
        assert scales is not None
        return [math.floor(shape[a] * s) for a, s in zip(axes, scales, strict=True)], scales
    outs = [int(n) for n in sizes]
    factors = [n / shape[a] for a, n in zip(axes, outs, strict=True)]
    policy = c.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        outs = [math.floor(factor * shape[a] + 0.5) for a in axes]
        factors = [factor] * len(axes)
    return outs, factors


def _position(x: Floats, n: int, out: int, factor: float, convention: str, crop: tuple[float, float] | None) -> Floats:
    """Return where output positions read, by the coordinate transformation mode."""
    match convention:
        case "align_corners":
            return x * (n - 1) / (out - 1) if out > 1 else x * 0
        case "asymmetric":
            return x / factor
        case "pytorch_half_pixel":
            return (x + 0.5) / factor - 0.5 if out > 1 else x * 0
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / factor
        case "half_pixel_symmetric":
            adjustment = out / (factor * n)
            center = n / 2
            return center * (1 - adjustment) + (x + 0.5) / factor - 0.5
        case "tf_crop_and_resize":
            assert crop is not None
            start, end = crop
            if out > 1:
                return start * (n - 1) + x * (end - start) * (n - 1) / (out - 1)
            return x * 0 + 0.5 * (start + end) * (n - 1)
        case _:
            return (x + 0.5) / factor - 0.5


def _taps(c: OpCall, mode: str, position: Floats, n: int, factor: float, old: bool) -> Taps:
    if mode == "nearest":
        return np.clip(_nearest(c, position, old), 0, n - 1).astype(np.int64)[None, :]
    reach = 1 if mode == "linear" else 2
    stretch = max(1.0, 1 / factor) if c.attr("antialias", 0) else 1.0
    width = math.ceil(reach * stretch)
    base = np.floor(position)
    steps = np.arange(-width, width + 1)[:, None]
    reads = base[None, :] + steps
    distance = np.abs(reads - position[None, :]) / stretch
    inside = distance < reach
    if mode == "cubic":
        # A cubic kernel is zero at whole distances other than 0.
        inside &= (distance == 0) | (distance % 1 != 0)
    return weighted(reads.astype(np.int64), inside.astype(float), n)


def _nearest(c: OpCall, position: Floats, old: bool) -> Floats:
    match "floor" if old else c.attr("nearest_mode", "round_prefer_floor"):
        case "floor":
            return np.floor(position)
        case "ceil":
            return np.ceil(position)
        case "round_prefer_ceil":
            return np.floor(position + 0.5)
        case _:
            return np.ceil(position - 0.5)


@operator("GridSample", primitives="Mix, Product", extent=lambda c: [*c.shape()[:2], *c.shape(1)[1:-1]])
def grid_sample(c: OpCall) -> Result:
    return indexing.sample_grid(c.b, c.x(), c.x(1))


@operator("AffineGrid", primitives="Mix", extent=lambda c: c.few_ints(1))
def affine_grid(c: OpCall) -> Result:
    return indexing.affine_grid(c.b, c.x(), c.ints(1)[2:])
