"""Witness 2: on generated torch networks without gates and mixing, exactly those connections are active that have a
gradient in the paper's path norm, computed by autograd on the real network in float64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from tests.witnesses.measured import measure
from tests.witnesses.modules import make
from tests.witnesses.path_norm import path_norm, touched

Record = Callable[[str, object], None]
QUICK, LONG = 40, 500


def against_autograd(seeds: Iterable[int], record: Record) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        case = make(seed, plain=True)
        example = case.draw_input()
        found = {name.removesuffix("_orig"): edges for name, edges in measure(case.model, example).items()}
        truth = touched(path_norm(make(seed, plain=True).model), example.shape)
        assert set(found) == set(truth), f"layers of seed {seed}"
        for name, active in truth.items():
            np.testing.assert_array_equal(found[name].mask("active"), active.numpy(), f"{name} of seed {seed}")
            seen["connections"] += active.numel()
            seen["kept"] += int(found[name].mask("kept").sum())
            seen["active"] += int(active.sum())
        seen["networks"] += 1
    for what, n in seen.items():
        record(f"witness: 2 autograd path norm, {what}", n)


@pytest.mark.parametrize("block", range(4))
def test_active_connections_have_a_path_norm_gradient(block: int, record_property: Record) -> None:
    against_autograd(range(block * QUICK, (block + 1) * QUICK), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20, 24))
def test_active_connections_have_a_path_norm_gradient_at_length(block: int, record_property: Record) -> None:
    against_autograd(range(block * LONG, (block + 1) * LONG), record_property)
