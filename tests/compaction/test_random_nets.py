"""Random networks keep their outputs, and what is removed is what a walk from the outputs does not reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from onnx import ModelProto

from effsparse_cli.compaction.onnx.run import run, session
from effsparse_cli.compaction.onnx.shrink import ShrunkModel, shrink
from effsparse_cli.compaction.onnx.standard_form import to_standard_form
from effsparse_cli.folding.onnx.model import OnnxModel
from effsparse_cli.folding.onnx.run import draw
from effsparse_cli.folding.onnx.unrunnable import find_unrunnable
from effsparse_cli.folding.rounds import repair
from effsparse_cli.formats.options import LoadOptions
from tests.compaction.random_nets import BATCH, SIZE, random_net, twist


def same(model: ModelProto) -> ShrunkModel:
    dice = np.random.default_rng(0)
    feeds = [{"x": dice.standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)} for _ in range(2)]
    whole = to_standard_form(model, Path("net.onnx"))
    unrunnable = find_unrunnable(whole, {"x": feeds[0]["x"].shape})
    drawn = draw(whole, unrunnable, shapes={"x": feeds[0]["x"].shape}, limits={}, seed=0)
    smaller = shrink(whole, drawn, unrunnable=unrunnable)
    before, after = (session(known(each)) for each in (whole, smaller.model))
    for each in feeds:
        (expected,), (found,) = run(before, each), run(after, each)
        if not np.isfinite(expected).all():
            reject()  # infinity times a pruned zero is NaN: draw another network
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))
    return smaller


def known(model: ModelProto) -> ModelProto:
    """Return the model with a function for the unknown operator, so that onnxruntime can run it."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.functions.append(twist())
    return copy


def stored(model: ModelProto) -> int:
    return sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_random_nets_keep_their_outputs(seed: int, steps: int) -> None:
    assert same(random_net(seed, steps)).survey.unknown == ()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_random_nets_with_unknown_operators_keep_their_outputs(seed: int, steps: int) -> None:
    assert set(same(random_net(seed, steps, unknown=True)).survey.unknown) <= {"Twist"}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_repaired_random_nets_keep_their_outputs(seed: int, steps: int) -> None:
    model = random_net(seed, steps, unknown=True)
    subject = OnnxModel(to_standard_form(model, Path("net.onnx")), Path("net.onnx"), LoadOptions())
    repair(subject)
    x = np.random.default_rng(0).standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)
    (expected,), (found,) = (run(session(known(each)), {"x": x}) for each in (model, subject.model))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_many_random_nets_keep_their_outputs(seed: int, steps: int) -> None:
    same(random_net(seed, steps, unknown=seed % 2 == 0))


def test_most_random_nets_shrink() -> None:
    nets = [random_net(seed, 6) for seed in range(12)]
    assert sum(stored(same(net).model) < stored(net) for net in nets) >= 10
