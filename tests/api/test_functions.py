"""The public functions do what the commands do, on live modules and on files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import effsparse
from effsparse_cli.cli import run
from effsparse_cli.errors import EffsparseError, LoadError, TargetError, UsageError
from tests.commands.conftest import SAMPLES

X = torch.zeros(1, 20)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 5))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(16, 20), torch.randint(0, 5, (16,))


def test_a_file_and_the_command_give_the_same_report(capsys: pytest.CaptureFixture[str]) -> None:
    file = SAMPLES / "lenet300_uniform99.pt"
    assert run(["report", str(file), "--format", "json"]) == 0
    report = effsparse.analyze(file)
    assert report.to_dict() == json.loads(capsys.readouterr().out)
    assert report.layers["fc2"].counts.active == 30


def test_a_loaded_file_is_read_once_for_several_functions() -> None:
    file = effsparse.load(SAMPLES / "lenet300_uniform99.pt")
    assert effsparse.analyze(file).totals == effsparse.prune(file, target=0.5).before.totals
    with pytest.raises(UsageError, match=r"pass these to load\(\)"):
        effsparse.analyze(file, key="x")


@pytest.mark.parametrize("method", ["snip", "snip-iterative", "force", "grasp"])
def test_methods_with_data_prune_a_live_module(method: str) -> None:
    model = network()
    change = effsparse.prune(
        model, X, 0.9, method=method, lsq="erk", data=batch(), rounds=0 if method in ("snip", "grasp") else 5
    )
    totals = effsparse.analyze(model, X).totals
    assert totals.kept == totals.active == change.totals.active
    assert abs(totals.effective_sparsity - 0.9) < 0.01


def test_data_in_every_form_gives_the_same_masks(tmp_path: Path) -> None:
    x, y = batch()
    np.savez(tmp_path / "batch.npz", x=x.numpy(), y=y.numpy())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    masks = [
        effsparse.prune(network(), X, 0.8, method="snip", data=data).masks
        for data in ((x, y), [(x, y)], {"x": x, "y": y}, loader, tmp_path / "batch.npz", str(tmp_path / "batch.npz"))
    ]
    assert all(np.array_equal(each[name], masks[0][name]) for each in masks for name in masks[0])


def test_mending_a_live_module() -> None:
    model = network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[torch.rand_like(parameter) < 0.9] = 0
    before = effsparse.analyze(model, X).totals
    change = effsparse.repair(model, X, budget_neutral=True, dense=network())
    after = effsparse.analyze(model, X).totals
    assert before.kept == after.kept == after.active == change.totals.active
    effsparse.repair(model, X, target=0.95, dense=network())
    assert abs(effsparse.analyze(model, X).effective_sparsity - 0.95) < 0.02


def test_a_target_out_of_reach_changes_nothing() -> None:
    model = network()
    with pytest.raises(TargetError, match=r"out of reach.*closest accepts it"):
        effsparse.prune(model, X, 0.9999)
    assert effsparse.analyze(model, X).effective_sparsity == 0
    assert effsparse.prune(model, X, 0.9999, closest=True).out_of_reach


def test_files_are_written_and_protected(tmp_path: Path) -> None:
    source, target = SAMPLES / "lenet300_uniform99.pt", tmp_path / "pruned.pt"
    assert effsparse.prune(source, target="99.95%", output=target).written == str(target)
    with pytest.raises(UsageError, match=r"output=.* is an existing model.*force"):
        effsparse.prune(source, target=0.9, output=target)
    effsparse.repair(target, output=target.with_stem("repaired"))
    assert not effsparse.diff(target, target.with_stem("repaired")).differs
    effsparse.prune(source, target=0.99, output=target, force=True)


def test_quotas_curves_and_checks(tmp_path: Path) -> None:
    model = network()
    quotas = effsparse.quotas(model, X, 0.9, lsq=["erk", "igq"], sweep=True)
    for lsq, kept in quotas.kept.items():
        compression, last = quotas.sweep[lsq][-1]
        assert (round(compression, 9), last) == (10, kept)
        totals = [sum(each) for _, each in quotas.sweep[lsq]]
        assert totals == sorted(totals, reverse=True)
    quotas.plot(tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").read_text().count('<g id="axes_') == 2
    curves = effsparse.curve(model, X, method=["random", "magnitude"], lsq=["igq", "uniform"], points=4)
    assert [line.name for line in curves.lines] == [
        "random, igq", "random, uniform", "magnitude, igq", "magnitude, uniform"
    ]  # fmt: skip
    assert not effsparse.check(model, X, min_effective="50%").passed
    assert effsparse.check(model, X, max_effective=0.5, select=["effective"]).passed


WRONG: list[tuple[type[Exception], str, Callable[[], object]]] = [
    (UsageError, "a state_dict has tensors but no graph", lambda: effsparse.analyze(network().state_dict(), X)),  # type: ignore[arg-type]
    (UsageError, "int object is not a model", lambda: effsparse.analyze(3)),  # type: ignore[arg-type]
    (UsageError, r"target=99\.9: .*did you mean 99\.9% \(0\.999\)\?", lambda: effsparse.prune(network(), X, 99.9)),
    (UsageError, "only fc", lambda: effsparse.prune(network(), X, 0.9, only="fc*")),
    (UsageError, r"for example target=0\.99 or compression=100", lambda: effsparse.prune(network(), X)),
    (UsageError, "give a batch with data", lambda: effsparse.prune(network(), X, 0.9, method="snip")),
    (UsageError, "data has no effect here", lambda: effsparse.prune(network(), X, 0.9, data=batch())),
    (UsageError, "method=Snipp: unknown; did you mean snip", lambda: effsparse.prune("x", X, 0.9, method="Snipp")),
    (LoadError, "nope.pt does not exist", lambda: effsparse.analyze("nope.pt")),
    (UsageError, "changed in memory", lambda: effsparse.prune(network(), X, 0.9, output="a.pt")),
    (TypeError, "nonsense", lambda: effsparse.analyze(network(), X, nonsense=1)),  # type: ignore[call-arg]
    (UsageError, "dense, lsq, only", lambda: effsparse.repair(network(), X, dense=network())),
    (UsageError, "does not run on input 1x3", lambda: effsparse.analyze(network(), torch.zeros(1, 3))),
    (KeyError, "not a layer of this model: 0, 2, 4", lambda: effsparse.analyze(network(), X).layers["zz"]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "call"), WRONG)
def test_errors_name_arguments(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert not isinstance(caught.value, EffsparseError) or "--" not in str(caught.value)
