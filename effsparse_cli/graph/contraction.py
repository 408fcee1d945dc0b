"""Sums of products in primitives: Contract by a weight, Product of activations.

Operands have one letter per axis (`equations.py`). Both front ends write linear, matmul and einsum this way, and
convolution by a kernel that is not a stored weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.equations import LETTERS
from effsparse_cli.graph.primitives import Shape, Taps


class MatrixView(NamedTuple):
    """The matrix that Contract takes: a weight reshaped to `split`, permuted by `order`, reshaped to `shape`."""

    split: Shape
    order: tuple[int, ...]
    shape: Shape


ApplyWeight = Callable[[int, MatrixView, int], int]
"""(x [*batch, groups*C], the weight as [groups*N, C], groups) -> [*batch, groups*N]."""


def sum_to(b: Builder, x: int, letters: Sequence[str], out: Sequence[str]) -> int:
    """Sum over the axes that `out` lacks and permute the others into its order."""
    summed = [axis for axis, letter in enumerate(letters) if letter not in out]
    x = b.reduce(x, summed, keepdim=False) if summed else x
    left = [letter for letter in letters if letter in out]
    return b.permute(x, [left.index(letter) for letter in out])


def multiply(b: Builder, x: int, y: int, *, left: str, right: str, out: str) -> int:
    """Multiply two activations; letters that neither the other operand nor the result has are summed first."""
    terms = []
    for letters, other, node in ((left, right, x), (right, left, y)):
        kept = "".join(letter for letter in letters if letter in other or letter in out)
        terms.append((kept, sum_to(b, node, letters, kept)))
    (left, x), (right, y) = terms
    return b.product(f"{left},{right}->{out}", x, y)


def contract(
    b: Builder, x: int, *, letters: str, weight_letters: str, weight_shape: Sequence[int], out: str, apply: ApplyWeight
) -> int:
    """Multiply an activation by a weight: sort the axes into batch, groups, contracted and new ones, let `apply`
    contract, and arrange the result as `out`."""
    sizes_x = dict(zip(letters, b.shape(x), strict=True))
    sizes_w = dict(zip(weight_letters, weight_shape, strict=True))
    # An axis of size 1 that broadcasts against the other operand is dropped.
    lx = [c for c, n in sizes_x.items() if not (n == 1 and sizes_w.get(c, 1) > 1)]
    lw = [c for c, n in sizes_w.items() if not (n == 1 and c in sizes_x and (sizes_x[c] > 1 or c in out))]
    x = b.reshape(x, [sizes_x[c] for c in lx])
    batch = [c for c in lx if c not in lw and c in out]
    shared = [c for c in lx if c in lw and c in out]
    summed = [c for c in lx if c in lw and c not in out]
    new = [c for c in lw if c not in lx]
    groups, rows, width = (math.prod(sizes_w[c] for c in axes) for axes in (shared, shared + new, summed))
    batch_sizes = [sizes_x[c] for c in batch]
    x = b.reshape(sum_to(b, x, lx, batch + shared + summed), [*batch_sizes, groups * width])
    order = tuple(lw.index(c) for c in shared + new + summed)
    y = apply(x, MatrixView(tuple(sizes_w[c] for c in lw), order, (rows, width)), groups)
    y = b.reshape(y, [*batch_sizes, *(sizes_w[c] for c in shared + new)])
    return sum_to(b, y, batch + shared + new, out)


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
