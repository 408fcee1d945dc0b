"""The sample files equal what the script makes, are small, and have the expected counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from sample_models import make

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
    files = [file for file in FOLDER.iterdir() if file.suffix in (".pt", ".pt2")]
    assert {file.name for file in files} == set(make.MODELS)
    assert sum(file.stat().st_size for file in files) < 5_000_000


@pytest.mark.parametrize("name", make.MODELS)
def test_files_contain_no_paths(name: str) -> None:
    assert not re.search(rb"[\w/]+/[\w-]+\.py\b", (FOLDER / name).read_bytes())
