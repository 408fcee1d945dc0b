"""Random networks give the same outputs once cut, and what is cut is what a walk from the outputs does not meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto

from effsparse_cli.compact.onnx.cut import Smaller, cut
from effsparse_cli.compact.onnx.plain import plain
from effsparse_cli.compact.onnx.run import run, session
from tests.compact.random_nets import BATCH, SIZE, random_net


def same(model: ModelProto) -> Smaller:
    dice = np.random.default_rng(0)
    feeds = [{"x": dice.standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)} for _ in range(2)]
    whole = plain(model, Path("net.onnx"))
    smaller = cut(whole, feeds[0])
    before, after = session(whole), session(smaller.model)
    for each in feeds:
        (expected,), (found,) = run(before, each), run(after, each)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))
    return smaller


def stored(model: ModelProto) -> int:
    return sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_random_nets_stay_the_same(seed: int, steps: int) -> None:
    assert same(random_net(seed, steps)).survey.unknown == ()


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_many_random_nets_stay_the_same(seed: int, steps: int) -> None:
    same(random_net(seed, steps))


def test_most_random_nets_shrink() -> None:
    nets = [random_net(seed, 6) for seed in range(12)]
    assert sum(stored(same(net).model) < stored(net) for net in nets) >= 10
