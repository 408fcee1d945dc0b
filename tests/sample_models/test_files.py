"""The sample files equal what the script makes, are small, and have the expected counts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from torch import Tensor, nn

import effsparse
from sample_models import make
from sample_models.other_formats import OTHER_FORMATS

FOLDER = Path(make.__file__).parent

# Numbers of connections and of kept ones.
COUNTS = {
    "figure1.pt": (21, 10),
    "lenet300_uniform99.pt": (266_200, 2_662),
    "lenet5_igq.pt": (61_770, 618),
    "resnet_small.pt2": (19_608, 589),
    "depthwise.pt2": (1_312, 133),
    "transformer_tiny.pt2": (16_640, 331),
    "lstm.pt2": (14_464, 290),
}

# Numbers of connections, of kept ones and of active ones.
COUNTS_OF_OTHER_FORMATS = {
    "lenet5.onnx": (61_770, 618, 470),
    "masked.onnx": (4_928, 245, 81),
    "quantized.onnx": (4_928, 252, 100),
    "lenet5_masks.pth": (61_770, 1_853, 949),
    "llama_tiny": (20_480, 11_264, 11_264),
}


def read(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".pt2":
        return dict(torch.export.load(file).state_dict)
    module: nn.Module = torch.load(file, weights_only=False)
    return module.state_dict()


@pytest.mark.parametrize("name", make.MODELS)
def test_script_makes_the_same_tensors(name: str, tmp_path: Path) -> None:
    make.write(tmp_path, [name])
    made, stored = read(tmp_path / name), read(FOLDER / name)
    assert made.keys() == stored.keys()
    for key, tensor in made.items():
        assert torch.equal(tensor, stored[key]), key


@pytest.mark.parametrize("name", make.MODELS)
def test_counts(name: str) -> None:
    weights = make.weights_of(make.build(name))
    assert (sum(w.numel() for w in weights), sum(int(w.count_nonzero()) for w in weights)) == COUNTS[name]


def test_files_are_complete_and_small() -> None:
    entries = [entry.name for entry in FOLDER.iterdir() if entry.suffix != ".py" and entry.name != "__pycache__"]
    assert sorted(entries) == sorted([*make.MODELS, *OTHER_FORMATS])
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.suffix != ".pyc") < 5_000_000


@pytest.mark.parametrize("name", [*make.MODELS, *OTHER_FORMATS])
def test_files_contain_no_paths(name: str) -> None:
    for file in files_of(FOLDER / name):
        assert not re.search(rb"[\w/]+/[\w-]+\.py\b", file.read_bytes())


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_other_formats_equal_what_the_script_makes(name: str, tmp_path: Path) -> None:
    OTHER_FORMATS[name](tmp_path / name)
    made, stored = files_of(tmp_path / name), files_of(FOLDER / name)
    assert [file.name for file in made] == [file.name for file in stored]
    for new, old in zip(made, stored, strict=True):
        if new.suffix == ".pth":
            tensors, expected = torch.load(new), torch.load(old)
            assert tensors.keys() == expected.keys()
            assert all(torch.equal(tensors[key], expected[key]) for key in expected)
        else:
            assert new.read_bytes() == old.read_bytes()


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_counts_of_other_formats(name: str) -> None:
    arch = {"arch": "lenet-5"} if name.endswith(".pth") else {}
    totals = effsparse.analyze(FOLDER / name, **arch).totals  # type: ignore[arg-type]
    assert (totals.connections, totals.kept, totals.active) == COUNTS_OF_OTHER_FORMATS[name]


@pytest.mark.parametrize("name", [name for name in OTHER_FORMATS if name.endswith(".onnx")])
def test_onnx_runs(name: str) -> None:
    session = InferenceSession(FOLDER / name)
    shape = session.get_inputs()[0].shape
    (output,) = session.run(None, {"input": np.ones(shape, np.float32)})
    assert output.shape == (1, 10)
    assert np.isfinite(output).all()


def files_of(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]
