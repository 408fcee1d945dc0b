"""Signal processing: transforms mix their axis; windows and filter banks are constants if their sizes are known."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.operators import Extent, MisfitError, NotLoweredError, Result, operator

GIVEN_SIZES = "none: a constant if its sizes are known"


def _mel_extent(c: OpCall) -> Extent:
    return [*c.few_ints(0), *(n // 2 + 1 for n in c.few_ints(1))]


@operator(
    "BlackmanWindow", "HammingWindow", "HannWindow",
    primitives=GIVEN_SIZES, constants="computed", extent=lambda c: c.few_ints(0),
)  # fmt: skip
@operator("MelWeightMatrix", primitives=GIVEN_SIZES, constants="computed", extent=_mel_extent)
def window(c: OpCall) -> Result:
    raise NotLoweredError("its size is computed from the model's input")


@operator("DFT", primitives="Mix", constants="computed", extent=lambda c: [*c.shape(), *c.few_ints(1)[:1]])
def dft(c: OpCall) -> Result:
    """The axis is cropped or padded to the length. Everything along it contributes to both parts of everything."""
    shape = c.shape()
    given = c.ints(2)[0] if c.has(2) else c.attr("axis", 1 if c.opset < 20 else -2)
    axis = given % len(shape)
    one_sided, inverse = bool(c.attr("onesided", 0)), bool(c.attr("inverse", 0))
    length = c.ints(1)[0] if c.has(1) else 2 * (shape[axis] - 1) if one_sided and inverse else shape[axis]
    x = c.b.pad(c.x(), axis, 0, length // 2 + 1 - shape[axis] if one_sided and inverse else length - shape[axis])
    mixed = c.b.reduce(x, (axis, len(shape) - 1), keepdim=True)
    out = length // 2 + 1 if one_sided and not inverse else length
    parts = 1 if one_sided and inverse else 2
    wanted = [out if i == axis else n for i, n in enumerate(shape)]
    return c.b.expand(mixed, [*wanted[:-1], parts])


@operator("STFT", primitives="Take, Mix", extent=lambda c: [*c.shape(), *c.few_ints(3)[:1]])
def stft(c: OpCall) -> Result:
    """Transform frames of the signal. Zeros in the window hide the signal."""
    shape, step = c.shape(), c.ints(1)[0]
    x = c.x() if len(shape) == 3 else c.b.reshape(c.x(), (*shape, 1))
    n, total, parts = c.b.shape(x)
    length = c.ints(3)[0] if c.has(3) else c.shape(2)[0]
    frames = (total - length) // step + 1
    if frames < 1:
        raise MisfitError(f"a signal of {total} samples is shorter than a frame of {length}")
    index = (np.arange(frames)[:, None] * step + np.arange(length)[None, :]).reshape(-1)
    cut = c.b.reshape(c.b.take(x, 1, index), (n, frames, length, parts))
    if c.has(2):
        cut = c.b.times(cut, c.b.reshape(c.x(2), (1, 1, -1, 1)))
    bins = length // 2 + 1 if c.attr("onesided", 1) else length
    return c.b.expand(c.b.reduce(cut, (2, 3), keepdim=True), (n, frames, bins, 2))
