"""Interpolation. The inputs that an output position reads are found by running the operator on unit vectors, one axis
at a time, so every mode, scale and alignment is exact."""

from __future__ import annotations

import torch

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Result
from effsparse_cli.graph import indexing, windows
from effsparse_cli.graph.primitives import Taps

operator = family("resize", steps=costs.spatial_axes)


@operator(
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip
def interpolate(call: OpCall, x: Arg, size: Arg, *rest: Arg) -> int:
    """Explicit scales shift the sampling, so the call's own arguments are used, except for sizes along other axes."""
    node = call.node(x)
    shape, out = call.b.shape(node), call.shape
    tables: list[Taps | None] = [None, None]
    for axis in range(2, len(shape)):
        tables.append(_table(call, axis, shape[axis], out[axis]))
    return call.b.window(node, tables)


def _table(call: OpCall, axis: int, n: int, out: int) -> Taps:
    """Run on unit vectors along one axis, one per channel; the other axes have size 1."""
    rank = len(call.shape) - 2
    units = torch.eye(n).reshape(1, n, *(n if 2 + i == axis else 1 for i in range(rank)))
    schema = [a for a in call.target._schema.arguments if not a.is_out]
    args = [_for_axis(a.name, value, axis - 2, out, rank) for a, value in zip(schema, call.args, strict=True)]
    with torch.no_grad():
        matrix = call.target(units, *args[1:]).reshape(n, out).numpy() != 0
    return windows.from_matrix(matrix)


def _for_axis(name: str, value: Arg, axis: int, out: int, rank: int) -> Result:
    if name in ("output_size", "size") and value is not None:
        return [out if i == axis else 1 for i in range(rank)]
    if name == "scale_factors" and value is not None:
        return [value[i] if i == axis else 1.0 for i in range(rank)]
    if name.startswith("scales") and value is not None:
        letter = {"scales_d": 0, "scales_h": rank - 2, "scales_w": rank - 1, "scales": 0}[name]
        return value if letter == axis else 1.0
    return value


@operator("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sample(call: OpCall, x: Arg, grid: Arg, *_: Arg) -> int:
    return indexing.sample_grid(call.b, call.node(x), call.node(grid))


@operator("affine_grid_generator")
def affine_grid(call: OpCall, theta: Arg, *_: Arg) -> int:
    return indexing.affine_grid(call.b, call.node(theta), call.shape[1:-1])
