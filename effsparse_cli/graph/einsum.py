"""Einsum in primitives: parse equations, and lower a sum of products to Contract (by a weight) or Product.

Operands are described by one letter per axis. Both front ends write matmul, linear and einsum this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from effsparse_cli.graph.builder import LETTERS, Builder
from effsparse_cli.graph.primitives import Ints, Shape


class MatrixView(NamedTuple):
    """How to arrange a weight as the matrix that Contract takes: reshape to `split`, permute by `order`, reshape to
    `shape`."""

    split: Shape
    order: tuple[int, ...]
    shape: Shape


ApplyWeight = Callable[[int, MatrixView, int], int]
"""(x [*batch, groups*C], the weight as [groups*N, C], groups) -> [*batch, groups*N]."""


def matmul_equation(left: int, right: int, flip_left: bool = False, flip_right: bool = False) -> str:
    """Return the equation of numpy.matmul for operands of these ranks; a flipped operand is transposed first."""
    batch = LETTERS[: max(left, right, 2) - 2]
    a = "z" if left == 1 else batch[len(batch) - left + 2 :] + ("zx" if flip_left else "xz")
    b = "z" if right == 1 else batch[len(batch) - right + 2 :] + ("yz" if flip_right else "zy")
    return f"{a},{b}->{batch}{'x' if left > 1 else ''}{'y' if right > 1 else ''}"


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the terms and the result with a letter for every axis, ellipses and an implicit result written out."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    most = max((n for n, term in zip(hidden, terms, strict=True) if "..." in term), default=0)
    extra = "".join(letter for letter in LETTERS if letter not in equation)[:most]
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        out = ("..." if "..." in left else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    spelled = [term.replace("...", extra[most - n :]) for term, n in zip(terms, hidden, strict=True)]
    return spelled, out.replace("...", extra)


def letter_sizes(equation: str, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the size of every letter, without checking the equation; the axes of an ellipsis count as ".1", ".2", ...
    from the right."""
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").partition("->")[0].split(","), shapes, strict=False):
        before, dots, after = term.partition("...")
        hidden = len(shape) - len(before + after) if dots else 0
        for letter, n in zip([*before, *(f".{hidden - i}" for i in range(hidden)), *after], shape, strict=False):
            sizes[letter] = max(int(n), sizes.get(letter, 1))
    return sizes


def diagonal_index(letters: str, shape: Sequence[int]) -> tuple[str, Ints]:
    """Return the letters without repeats, and the flat positions of the diagonal that repeated letters take."""
    unique = "".join(dict.fromkeys(letters))
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    sizes = dict(zip(letters, shape, strict=True))
    index = np.zeros([sizes[letter] for letter in unique], np.int64)
    for axis, letter in enumerate(unique):
        step = sum(int(stride) for stride, name in zip(strides, letters, strict=True) if name == letter)
        index += (np.arange(sizes[letter]) * step).reshape([-1 if i == axis else 1 for i in range(len(unique))])
    return unique, index


def sum_to(b: Builder, x: int, letters: Sequence[str], out: Sequence[str]) -> int:
    """Sum over the axes that `out` lacks and permute the others into its order."""
    summed = [axis for axis, letter in enumerate(letters) if letter not in out]
    x = b.reduce(x, summed, keepdim=False) if summed else x
    left = [letter for letter in letters if letter in out]
    return b.permute(x, [left.index(letter) for letter in out])


def multiply(b: Builder, left: str, right: str, out: str, x: int, y: int) -> int:
    """Multiply two activations; letters that neither the other operand nor the result has are summed first."""
    terms = []
    for letters, other, node in ((left, right, x), (right, left, y)):
        kept = "".join(letter for letter in letters if letter in other or letter in out)
        terms.append((kept, sum_to(b, node, letters, kept)))
    (left, x), (right, y) = terms
    return b.product(f"{left},{right}->{out}", x, y)


def contract(
    b: Builder, x: int, letters: str, weight_letters: str, weight_shape: Sequence[int], out: str, apply: ApplyWeight
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
