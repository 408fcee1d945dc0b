"""Compact training: the same as masked training up to rounding, and refused where it would not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from effsparse_cli.errors import EffsparseError, UsageError
from effsparse_cli.study.compact import compact_network, restore_weights
from effsparse_cli.study.experiment import plan_phases, prepare
from effsparse_cli.study.run import Run
from effsparse_cli.study.training.loop import train
from tests.study.tiny import STEPS, datasets, make_task, run

HERE = "tests.study.tiny"


def trained(**changes: Any) -> Run:
    experiment = prepare(make_task("synflow", options={"rounds": 20}, **changes))
    train(experiment, plan_phases(experiment), lambda due: None, lambda done, total: None)
    if experiment.compacted is not None:
        restore_weights(experiment.compacted, experiment.network)
    return experiment


@pytest.mark.parametrize(
    ("model", "compression", "when"),
    [
        ("mlp", 25.0, "init"),
        ("mlp", 25.0, "trained"),
        ("convnet", 20.0, "init"),
        ("convnet", 20.0, "trained"),
        ("Residual", 20.0, "trained"),
        ("odd:WithBuffer", 20.0, "trained"),
        ("odd:Gated", 20.0, "init"),
        ("odd:WithTensorState", 20.0, "init"),
    ],
)
def test_equal_to_masked_training(model: str, compression: float, when: str) -> None:
    named = f"tests.study.{model}" if ":" in model else f"{HERE}:{model}"
    task = {"model": named, "compression": compression, "effective": True, "epochs": 2, "when": when}
    masked, compact = (trained(**task, compact=compact) for compact in (False, True))
    assert compact.compacted is not None
    before, after = (sum(p.numel() for p in m.parameters()) for m in (masked.module, compact.compacted.module))
    assert after < before / 2
    for layer, weight in masked.network.weights.items():
        assert torch.equal(masked.network.masks[layer], compact.network.masks[layer])
        assert torch.allclose(weight, compact.network.weights[layer], atol=1e-5)
        moved = weight - prepare(masked.task).network.weights[layer]
        assert moved[masked.network.masks[layer]].abs().max() > 1e-4
    if model == "odd:WithTensorState":
        assert masked.network.module.calls == compact.network.module.calls == STEPS * 2
    _, (x, _) = datasets()
    first, second = (each.network.module.eval()(x) for each in (masked, compact))
    assert torch.allclose(first, second, atol=1e-4)
    assert [row["loss"] for row in masked.rows] == pytest.approx([row["loss"] for row in compact.rows], rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compression": 100.0, "lsq": "uniform", "method": "random"}, "needs effective targets"),
        ({"effective": True, "model": f"{HERE}:with_dropout"}, "draws random numbers in training"),
        ({"effective": True, "model": f"{HERE}:drops_by_function"}, "draws random numbers in training"),
        ({"effective": True, "model": "tests.study.odd:ByNumpy"}, "draws random numbers in training"),
        ({"effective": True, "model": "tests.study.odd:Shared"}, "share weights"),
        ({"effective": True, "model": "tests.study.odd:Tied"}, "share weights"),
        (
            {"effective": True, "model": "tests.study.odd:centering"},
            "in training, the smaller network computes something",
        ),
        ({"effective": True, "model": "tests.study.odd:Auxiliary"}, "does not run in training"),
    ],
)
def test_refused_where_it_is_not_exact(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    method = changes.pop("method", "snip")
    with pytest.raises(EffsparseError, match=message):
        run(make_task(method, compact=True, **changes), tmp_path)


def test_constants_that_inactive_connections_carry(tmp_path: Path) -> None:
    network = prepare(make_task("snip")).network
    network.masks["4"][0] = False  # nothing reaches this neuron, but what leaves it is kept
    with pytest.raises(UsageError, match=r"4 of 1,960 kept connections are on no path from input to output"):
        compact_network(network, (1, 8, 8))
