"""PyTorch files that once caused internal errors, and models with unknown operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from effsparse_cli.api import compact, repair
from effsparse_cli.cli import run
from effsparse_cli.formats.torch.arch.built_in import lenet_5, lenet_300_100
from tests.folding.custom_ops import PLACES, beside

X = torch.linspace(-2, 2, 24).reshape(4, 6)


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
def test_a_state_dict_with_nothing_to_repair(tmp_path: Path, form: str) -> None:
    torch.manual_seed(0)
    tensors = lenet_300_100().state_dict()
    source = tmp_path / ("model.safetensors" if form == "safetensors" else "model.pt")
    if form == "safetensors":
        save_file(tensors, source)
    else:
        torch.save(tensors, source, _use_new_zipfile_serialization=form == "zip")
    target = source.with_stem("out")
    assert run(["repair", str(source), "--arch", "lenet-300-100", "-o", str(target)]) == 0
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("place", PLACES)
def test_repair_of_a_model_with_an_unknown_operator(place: str) -> None:
    model = beside(place)
    expected = model(X)
    done = repair(model, torch.zeros(2, 6))
    assert done.removed > 0 < done.result.folded or place == "act"
    torch.testing.assert_close(model(X), expected)


@pytest.mark.parametrize("place", ["act", pytest.param("weight", marks=pytest.mark.slow), "layer"])
def test_compaction_of_a_model_with_an_unknown_operator(place: str) -> None:
    model = beside(place)
    done = compact(model, torch.zeros(2, 6))
    assert done.module is not None
    assert done.shrunk
    assert set(done.unknown) <= {"twist", "project"}
    torch.testing.assert_close(done.module(X), model(X))


def test_an_exported_program_with_an_unknown_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(beside("act"), (torch.zeros(2, 6),)), source)
    assert run(["repair", str(source), "-o", str(tmp_path / "out.pt2")]) == 0
    assert run(["compact", str(source), "-o", str(tmp_path / "out.onnx")]) == 3
    assert "effsparse_tests.twist, which effsparse does not know and cannot export to ONNX" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_gates_of_a_recurrent_layer_share_their_bias() -> None:
    """The exported graph slices one bias into four: all of its elements stay."""
    torch.manual_seed(0)
    model = nn.LSTM(5, 4, batch_first=True)
    small: Any = compact(model, torch.zeros(1, 3, 5)).module
    x = torch.randn(1, 3, 5)
    torch.testing.assert_close(small(x), model(x))


def test_the_architecture_determines_the_input_shape(tmp_path: Path) -> None:
    torch.save(lenet_5().state_dict(), tmp_path / "model.pt")
    arguments = [str(tmp_path / "model.pt"), "--arch", "lenet-5", "-o", str(tmp_path / "out.onnx")]
    assert run(["compact", *arguments]) == 0
