"""Random scores, compared with an independent implementation of the generator."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.errors import UsageError
from tests.pruning.scores.arrays import score_arrays

WORD = (1 << 64) - 1


def philox(key: tuple[int, int], count: int) -> list[int]:
    """Philox4x64-10 (Salmon et al. 2011); the counter of the first block is 1."""
    words: list[int] = []
    while len(words) < count:
        block, (k0, k1) = [len(words) // 4 + 1, 0, 0, 0], key
        for _ in range(10):
            a, b = block[0] * 0xD2E7470EE14C6C93, block[2] * 0xCA5A826395121157
            block = [(b >> 64) ^ block[1] ^ k0, b & WORD, (a >> 64) ^ block[3] ^ k1, a & WORD]
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
        words += block
    return words[:count]


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_scores_equal_philox_keyed_by_seed_and_position(seed: int) -> None:
    shapes = [(2, 3), (5,), (2, 1, 3, 3)]
    for position, scores in enumerate(score_arrays("random", *[np.zeros(shape) for shape in shapes], seed=seed)):
        assert scores.shape == shapes[position]
        expected = [((word >> 12) + 0.5) / 2**52 for word in philox((seed, position), scores.size)]
        assert scores.reshape(-1).tolist() == expected


def test_only_the_shape_of_the_weights_matters() -> None:
    weights = np.random.default_rng(0).random((4, 6)).astype(np.float32)
    (first,) = score_arrays("random", weights, seed=7)
    (second,) = score_arrays("random", np.asfortranarray(weights) * 0, seed=7)
    assert (first == second).all()


def test_scores_are_uniform_between_0_and_1() -> None:
    (scores,) = score_arrays("random", np.empty((500, 400), np.float32), seed=3)
    assert 0 < scores.min() < scores.max() < 1
    shares = np.histogram(scores, bins=10, range=(0, 1))[0] / scores.size
    assert shares == pytest.approx([0.1] * 10, abs=0.005)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_out_of_range(seed: int) -> None:
    with pytest.raises(UsageError, match="seed"):
        score_arrays("random", np.zeros(1), seed=seed)
