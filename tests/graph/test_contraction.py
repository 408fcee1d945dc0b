"""A weight element of a contraction is active exactly if numpy's einsum multiplies it with a live element."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.contraction import MatrixView, contract
from effsparse_cli.graph.equations import letter_sizes, split_equation
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Ints, Shape, View
from tests.oracle import oracle

CASES: dict[str, tuple[str, Shape, Shape]] = {
    "linear": ("az,yz->ay", (2, 3), (2, 3)),
    "groups": ("agz,gzy->agy", (1, 2, 3), (2, 3, 2)),
    "summed in the activation only": ("abz,zy->y", (2, 2, 2), (2, 3)),
    "summed in the weight only": ("az,zyw->ay", (2, 2), (2, 2, 2)),
    "outer product": ("a,b->ba", (3,), (2,)),
    "batch axis of the weight of size 1": ("bz,bzy->by", (2, 3), (1, 3, 2)),
    "batch axis of the activation of size 1": ("bz,bzy->by", (1, 3), (2, 3, 2)),
    "contracted axis of the activation of size 1": ("az,zy->ay", (2, 1), (3, 2)),
    "contracted axis of the weight of size 1": ("az,zy->ay", (2, 3), (1, 2)),
    "all axes of size 1": ("az,zy->ay", (1, 1), (1, 1)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_active_elements(name: str, seed: int) -> None:
    equation, x_shape, w_shape = CASES[name]
    letters, weight_letters, out = split_equation(equation)
    live = np.random.default_rng(seed).random(x_shape) < 0.5
    b = Builder()
    x = b.gather(b.source("x", x_shape), np.where(live, np.arange(live.size).reshape(x_shape), -1))
    layer = Layer("w", "linear", w_shape, lambda: np.ones(w_shape, bool))

    def apply(node: int, view: MatrixView, groups: int) -> int:
        index: Ints = np.arange(np.prod(w_shape)).reshape(view.split).transpose(view.order).reshape(view.shape)
        return b.contract(node, b.weight(layer, view.shape, View(index=index)), groups=groups)

    y = contract(b, x, letters=letters, weight_letters=weight_letters, weight_shape=w_shape, out=out, apply=apply)
    sizes = letter_sizes(equation, [x_shape, w_shape])
    assert b.shape(y) == tuple(sizes[letter] for letter in out)
    spread = np.broadcast_to(live, [sizes[letter] for letter in letters]).astype(int)
    ones = np.ones([sizes[letter] for letter in weight_letters], int)
    used = np.einsum(f"{letters},{weight_letters}->{weight_letters}", spread, ones) > 0
    broadcast = tuple(axis for axis, n in enumerate(w_shape) if n == 1)
    expected = used.any(axis=broadcast, keepdims=True)
    assert oracle(b.finish([y]))["w"]["active"] == expected.reshape(-1).tolist()
