"""Einsum equations against numpy: the written-out equation computes the same as the original."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.graph.equations import diagonal_index, letter_sizes, matmul_equation, parse_equation

EQUATIONS = {
    "ij,jk": ((2, 3), (3, 4)),
    "ba,ac->": ((2, 3), (3, 4)),
    "...ij,...jk->...ik": ((5, 2, 3), (3, 4)),
    "i...,...j": ((2, 3), (5, 3, 4)),
    "a,b,c->cab": ((2,), (3,), (4,)),
    "ii->i": ((3, 3),),
    " i j -> j i ": ((2, 3),),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_parse_equation(equation: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in EQUATIONS[equation]]
    terms, out = parse_equation(equation, [array.ndim for array in arrays])
    assert [len(term) for term in terms] == [array.ndim for array in arrays]
    np.testing.assert_allclose(np.einsum(f"{','.join(terms)}->{out}", *arrays), np.einsum(equation, *arrays))


@pytest.mark.parametrize("left", [(3,), (2, 3), (5, 2, 3)])
@pytest.mark.parametrize("right", [(3,), (3, 4), (6, 5, 3, 4)])
def test_matmul_equation(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = np.arange(np.prod(left)).reshape(left), np.arange(np.prod(right)).reshape(right)
    assert (np.einsum(matmul_equation(a.ndim, b.ndim), a, b) == a @ b).all()
    if a.ndim > 1 and b.ndim > 1:
        flipped = matmul_equation(a.ndim, b.ndim, flip_left=True, flip_right=True)
        assert (np.einsum(flipped, np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)) == a @ b).all()


def test_letter_sizes() -> None:
    assert letter_sizes("a...b,bc->c", [(2, 7, 1), (3, 4)]) == {"a": 2, ".1": 7, "b": 3, "c": 4}


def test_repeated_letters_take_the_diagonal() -> None:
    x = np.arange(2 * 3 * 3).reshape(2, 3, 3)
    letters, index = diagonal_index("aii", x.shape)
    assert letters == "ai"
    assert (x.reshape(-1)[index] == np.einsum("aii->ai", x)).all()
