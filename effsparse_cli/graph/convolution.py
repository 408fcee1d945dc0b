"""Convolution by a kernel that is not a stored weight, in primitives: a product over the patches that the taps read."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.equations import LETTERS
from effsparse_cli.graph.primitives import Taps


def extract_patches(b: Builder, x: int, tables: Sequence[Taps]) -> int:
    """[*batch, C, *sizes] -> [*batch, C, k1, o1, k2, o2, ...]: what each tap reads for each output."""
    lead = b.shape(x)[: len(b.shape(x)) - len(tables)]
    for axis, table in enumerate(tables):
        x = b.take(x, len(lead) + axis, table.reshape(-1))
    return b.reshape(x, (*lead, *(n for table in tables for n in table.shape)))


def convolve_by_value(b: Builder, x: int, kernel: int, tables: Sequence[Taps], groups: int) -> int:
    """Convolve x [*batch, groups*C, *sizes] with a kernel [groups*N, C, *taps] that is itself an activation."""
    rows, depth, *taps = b.shape(kernel)
    batch = b.shape(x)[: len(b.shape(x)) - len(tables) - 1]
    kernel = b.reshape(kernel, (groups, rows // groups, depth, *taps))
    patches = extract_patches(b, x, tables)
    patches = b.reshape(patches, (*batch, groups, depth, *b.shape(patches)[len(batch) + 1 :]))
    lead, ks, outs = LETTERS[: len(batch)], "KLMN"[: len(tables)], "OPQR"[: len(tables)]
    pairs = "".join(k + o for k, o in zip(ks, outs, strict=True))
    y = b.product(f"{lead}XZ{pairs},XYZ{ks}->{lead}XY{outs}", patches, kernel)
    return b.reshape(y, (*batch, rows, *b.shape(y)[len(batch) + 2 :]))
