"""Commands on models whose stored weights are mixed before use: what they cannot bring about they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from onnxruntime import InferenceSession
from torch import Tensor, nn

from tests.commands.conftest import Run


class Standardized(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-5)
        return F.conv2d(x, w, self.bias, padding=1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(
        Standardized(2, 8, 3), nn.ReLU(), Standardized(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4)
    )
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim > 1:
                parameter.mul_(torch.rand_like(parameter) > 0.5)
        net.get_parameter("5.weight")[:, :32] = 0
    path = tmp_path / "standardized.pt2"
    torch.export.save(torch.export.export(net.eval(), (torch.ones(1, 2, 4, 4),)), path)
    return path


def test_pruning_mixed_weights_is_refused_and_nothing_is_written(effsparse: Run, model: Path) -> None:
    before = set(model.parent.iterdir())
    outcome = effsparse("prune", model, "--target", "0.5", "-o", model.parent / "out.pt2")
    assert outcome.code == 2
    assert "0, 2: weights are mixed before use" in outcome.message
    assert "--exclude" in outcome.message
    assert set(model.parent.iterdir()) == before


@pytest.mark.parametrize("method", ["magnitude", "synflow"])
def test_other_layers_are_pruned_to_what_the_written_file_reports(effsparse: Run, model: Path, method: str) -> None:
    out = model.parent / "out.pt2"
    arguments = ("--method", method, "--target", "0.7", "--exclude", "0", "--exclude", "2")
    assert effsparse("prune", model, *arguments, "-o", out).code == 0
    report = json.loads(effsparse("report", out, "--format", "json").out)
    assert report["totals"]["effective_sparsity"] == pytest.approx(0.7, abs=0.001)


def test_repair_and_compact_leave_the_output_as_it_is(effsparse: Run, model: Path) -> None:
    x = torch.randn(1, 2, 4, 4)
    expected = torch.export.load(model).module()(x)
    repaired = model.parent / "repaired.pt2"
    assert effsparse("repair", model, "-o", repaired).code == 0
    assert torch.allclose(torch.export.load(repaired).module()(x), expected, atol=1e-5)
    compacted = model.parent / "compacted.onnx"
    outcome = effsparse("compact", model, "-o", compacted)
    assert outcome.code == 0, outcome.err
    (found,) = InferenceSession(compacted).run(None, {"input": x.numpy()})
    assert torch.allclose(torch.from_numpy(found), expected, atol=1e-5)
