"""`effsparse diff` on real files: what changed, how layers find each other, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from effsparse_cli.report.comparison import Difference
from tests.checks.models import chain, dense, with_dead_ends, write_mlp
from tests.commands.conftest import Outcome, Run


@pytest.fixture
def diff(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        return effsparse("diff", *arguments)

    return run


def document(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_what_changed(diff: Run, tmp_path: Path) -> None:
    """fc2's last connection is lost, fc1's last row gains one; the one that fc1 keeps there is newly dead."""
    write_mlp(tmp_path / "a.onnx", chain())
    after = chain()
    after["fc2"][3, 3] = 0
    after["fc1"][3, 0] = 1
    write_mlp(tmp_path / "b.onnx", after)
    outcome = diff("a.onnx", "b.onnx")
    assert outcome.code == 0, "differences are an error only with --exit-code"
    assert outcome.out.splitlines() == [
        "a.onnx -> b.onnx",
        "",
        "layer   direct    after  effective    after  gained  lost  newly dead  revived",
        "fc1    75.00 %  68.75 %    75.00 %  81.25 %       1                 1",
        "fc2    75.00 %  81.25 %    75.00 %  81.25 %             1",
        "─" * 78,
        "total  75.00 %  75.00 %    75.00 %  81.25 %       1     1           1",
        "",
        "2 layers differ, 0 the same.",
    ]
    assert diff("a.onnx", "b.onnx", "--exit-code").code == 1
    back = document(diff("b.onnx", "a.onnx", "-f", "json"))["totals"]
    assert (back["gained"], back["lost"], back["newly_dead"], back["revived"]) == (1, 1, 0, 1)


@pytest.mark.parametrize("form", Difference.FORMATS)
def test_no_difference(diff: Run, tmp_path: Path, form: str) -> None:
    write_mlp(tmp_path / "a.onnx", with_dead_ends(2))
    outcome = diff("a.onnx", "a.onnx", "--exit-code", "-f", form)
    assert (outcome.code, outcome.err) == (0, "")
    written = diff("a.onnx", "a.onnx", "-f", form, "-o", "out")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "out").read_text() == outcome.out


def test_transposed_weights_match(diff: Run, tmp_path: Path) -> None:
    weights = dense(5, 3, 4)
    weights["fc1"][0, 1:] = 0
    weights["fc2"][:, 2] = 0
    write_mlp(tmp_path / "a.onnx", weights)
    write_mlp(tmp_path / "b.onnx", weights, transposed=True)
    assert diff("a.onnx", "b.onnx", "--exit-code").code == 0
    weights["fc1"][0, 4] = 1
    write_mlp(tmp_path / "b.onnx", weights, transposed=True)
    found = document(diff("a.onnx", "b.onnx", "-f", "json"))
    assert [(layer["gained"], layer["lost"]) for layer in found["layers"]] == [(1, 0), (0, 0)]


def test_names(diff: Run, tmp_path: Path) -> None:
    """Prefixes are ignored, other layers are matched by shape and order, and unmatched layers are reported."""
    weights = {"fc1": np.ones((3, 5)), "head": np.ones((4, 3)), "last": np.ones((2, 4))}
    renamed = {"module.fc1": np.ones((3, 5)), "classifier": np.ones((4, 3)), "tail": np.ones((7, 4))}
    for name, table in (("a", weights), ("b", renamed)):
        write_mlp(tmp_path / f"{name}.onnx", {key: value.astype(np.float32) for key, value in table.items()})
    outcome = diff("a.onnx", "b.onnx", "--exit-code")
    assert outcome.code == 1
    assert "Matched under different names: fc1 -> module.fc1, head -> classifier." in outcome.out
    assert "Only in a.onnx: last (2x4)." in outcome.out
    assert "Only in b.onnx: tail (7x4)." in outcome.out


def test_another_shape_is_only_counted(diff: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "a.onnx", dense(4, 4))
    write_mlp(tmp_path / "b.onnx", dense(4, 5))
    outcome = diff("a.onnx", "b.onnx", "--exit-code")
    assert outcome.code == 1
    assert "Different shapes, so connections were counted but not compared: fc1." in outcome.out
    assert document(diff("a.onnx", "b.onnx", "-f", "json"))["layers"][0]["gained"] is None


def test_disconnected_is_said(diff: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "a.onnx", chain())
    weights = chain()
    weights["fc2"][:] = 0
    write_mlp(tmp_path / "b.onnx", weights)
    assert "b.onnx is disconnected" in diff("a.onnx", "b.onnx").out


@pytest.mark.parametrize(("arguments", "code"), [(["a.onnx", "absent.onnx"], 3), (["a.onnx"], 2)])
def test_bad_input(diff: Run, tmp_path: Path, arguments: list[str], code: int) -> None:
    write_mlp(tmp_path / "a.onnx", chain())
    outcome = diff(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err


class Mixed(nn.Module):
    """Layers that exporters store in another way than torch does."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.gru = nn.GRU(4, 3, batch_first=True)
        self.fc = nn.Linear(3, 2)
        self.conv = nn.Conv1d(2, 3, 3, padding=1)
        self.up = nn.ConvTranspose1d(3, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = self.fc(self.gru(self.lstm(x)[0])[0])
        up: torch.Tensor = self.up(self.conv(steps.transpose(1, 2)))
        return up


def test_torch_against_its_export(diff: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Mixed().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(torch.rand_like(weight) < 0.5)
    program = torch.export.export(model, (torch.randn(1, 6, 5),))
    torch.export.save(program, tmp_path / "m.pt2")
    torch.onnx.export(program, (), str(tmp_path / "m.onnx"), dynamo=True, verbose=False)
    outcome = diff("m.pt2", "m.onnx", "--exit-code")
    assert outcome.code == 0, outcome.out
    assert "in 7 layers" in outcome.out
    with torch.no_grad():
        program.state_dict["lstm.weight_hh_l0"].fill_(1)
    torch.export.save(program, tmp_path / "m.pt2")
    found = document(diff("m.pt2", "m.onnx", "-f", "json"))
    assert next(layer["before"]["name"] for layer in found["layers"] if layer["differs"]) == "lstm.weight_hh_l0"
    assert (found["totals"]["gained"], found["totals"]["lost"] > 0) == (0, True)
