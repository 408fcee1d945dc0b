"""Einsum equations as text: one letter per axis, two or more operands, no graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.graph.primitives import Ints

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def matmul_equation(left: int, right: int, flip_left: bool = False, flip_right: bool = False) -> str:
    """Return the equation of numpy.matmul for operands of these ranks; a flipped operand is transposed first."""
    batch = LETTERS[: max(left, right, 2) - 2]
    a = "z" if left == 1 else batch[len(batch) - left + 2 :] + ("zx" if flip_left else "xz")
    b = "z" if right == 1 else batch[len(batch) - right + 2 :] + ("yz" if flip_right else "zy")
    return f"{a},{b}->{batch}{'x' if left > 1 else ''}{'y' if right > 1 else ''}"


def split_equation(equation: str) -> tuple[str, str, str]:
    """Return the letters of both operands and of the result, of an explicit equation of two operands."""
    terms, result = equation.replace(" ", "").split("->")
    left, right = terms.split(",")
    return left, right, result


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
    """Return the size of every letter, without checking that the equation fits; an axis of size 1 broadcasts. The axes
    of an ellipsis are named ".1", ".2", ... from the right."""
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").partition("->")[0].split(","), shapes, strict=False):
        before, dots, after = term.partition("...")
        hidden = len(shape) - len(before + after) if dots else 0
        for letter, n in zip([*before, *(f".{hidden - i}" for i in range(hidden)), *after], shape, strict=False):
            sizes[letter] = int(n) if sizes.get(letter, 1) == 1 else sizes[letter]
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
