"""Masks written into PyTorch files and read back: what the file says is what the masks say."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.graph.primitives import Bools
from tests.formats.write import write_kept

SAMPLES = Path(__file__).parents[4] / "sample_models"


def draw_masks(path: Path) -> dict[str, Bools]:
    """Half of what is kept, of every layer."""
    draw = np.random.default_rng(0)
    layers = load(path, LoadOptions()).layers.values()
    return {layer.name: layer.kept() & (draw.random(layer.shape) < 0.5) for layer in layers}


def kept(path: Path) -> dict[str, Bools]:
    return {layer.name: layer.kept() for layer in load(path, LoadOptions()).layers.values()}


def assert_same(found: dict[str, Bools], masks: dict[str, Bools]) -> None:
    assert found.keys() == masks.keys()
    for name, mask in masks.items():
        np.testing.assert_array_equal(found[name], mask, err_msg=name)


@pytest.mark.parametrize("form", ["zeros", "prune"])
@pytest.mark.parametrize("name", ["figure1.pt", "lenet5_igq.pt"])
def test_module(tmp_path: Path, name: str, form: str) -> None:
    masks = draw_masks(SAMPLES / name)
    write_kept(SAMPLES / name, tmp_path / name, masks, LoadOptions(), form)
    assert_same(kept(tmp_path / name), masks)
    before, after = (load(folder / name, LoadOptions()) for folder in (SAMPLES, tmp_path))
    for layer in before.layers.values():
        assert layer.values is not None
        again = after.layers[layer.name].values
        assert again is not None
        held = masks[layer.name] if form == "zeros" else np.ones(layer.shape, bool)
        np.testing.assert_array_equal(again(), np.where(held, layer.values(), 0))


@pytest.mark.parametrize("name", ["resnet_small.pt2", "transformer_tiny.pt2", "lstm.pt2", "depthwise.pt2"])
def test_program(tmp_path: Path, name: str) -> None:
    masks = draw_masks(SAMPLES / name)
    write_kept(SAMPLES / name, tmp_path / name, masks)
    assert_same(kept(tmp_path / name), masks)
    with zipfile.ZipFile(SAMPLES / name) as before, zipfile.ZipFile(tmp_path / name) as after:
        assert after.testzip() is None
        assert after.namelist() == before.namelist()
        changed = {member for member in after.namelist() if after.read(member) != before.read(member)}
    assert changed
    assert all("/data/weights/weight_" in member for member in changed)


@pytest.mark.parametrize("form", ["zeros", "prune"])
def test_masks_in_the_module_say_the_same_afterwards(tmp_path: Path, form: str) -> None:
    """Also where the new mask keeps what the old one did not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    torch.save(model, tmp_path / "masked.pt")
    masks = {"0": model.state_dict()["0.weight_mask"].numpy() == 0, "2": np.eye(3, 5, dtype=bool)}
    write_kept(tmp_path / "masked.pt", tmp_path / "out.pt", masks, LoadOptions(), form)
    assert_same(kept(tmp_path / "out.pt"), masks)


def test_tied_weights_are_masked_in_every_module(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False))
    model[2].weight = model[0].weight
    torch.save(model, tmp_path / "tied.pt")
    mask = np.tri(4, dtype=bool)
    write_kept(tmp_path / "tied.pt", tmp_path / "out.pt", {"0": mask}, LoadOptions(), "prune")
    written = torch.load(tmp_path / "out.pt", weights_only=False)
    x = torch.randn(2, 4)
    weight = model.state_dict()["0.weight"] * torch.from_numpy(mask)
    torch.testing.assert_close(written(x), torch.relu(x @ weight.T) @ weight.T)


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.LSTM(3, 2)), tmp_path / "lstm.pt")
    with pytest.raises(UsageError, match="recurrent"):
        write_kept(
            tmp_path / "lstm.pt", tmp_path / "out.pt", {"0.weight_ih_l0": np.ones((8, 3), bool)}, LoadOptions(), "prune"
        )
    with pytest.raises(UsageError, match="no tensor for nosuch"):
        write_kept(SAMPLES / "figure1.pt", tmp_path / "out.pt", {"nosuch": np.ones(1, bool)}, LoadOptions())
    assert not (tmp_path / "out.pt").exists()
