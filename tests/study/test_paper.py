"""The study files of the paper's figures fit data of the sizes that the paper uses."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from effsparse_cli.study.data.mnist import NAMES
from effsparse_cli.study.experiment import prepare
from effsparse_cli.study.file import expand_study, locate_data, parse_study
from effsparse_cli.study.paper import DATA, FIGURES, FULL, SCALES, write_paper_study
from effsparse_cli.study.recipes import find_recipe
from tests.study.data.test_mnist import idx

SIZES = {
    "mnist": (28, 28),
    "cifar10": (32, 32),
    "cifar100": (32, 32),
    "tiny-imagenet-200": (64, 64),
    "imagenet": (400, 300),
}
"""Widths and heights of images, by the name of the folder."""


def write_data(folder: Path, as_images: bool = False) -> None:
    """Write four examples of two classes to train on, and four to test on."""
    draws = np.random.default_rng(0)
    if folder.name == "mnist" and not as_images:
        for images, labels in NAMES.values():
            (folder / images).write_bytes(idx(draws.integers(0, 256, (4, 28, 28)).astype(np.uint8)))
            (folder / labels).write_bytes(idx(np.array([0, 1, 0, 1], np.uint8)))
        return
    for split in ("train", "val"):
        for name in "ab":
            (folder / split / name).mkdir(parents=True)
            for i in range(2):
                pixels = draws.integers(0, 256, (*reversed(SIZES[folder.name]), 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{i}.png")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("model", DATA)
def test_every_model_gets_what_it_needs(model: str, scale: str, tmp_path: Path) -> None:
    folder = tmp_path / DATA[model].path
    folder.mkdir(parents=True)
    write_data(folder)
    figure = next(name for name, each in FIGURES.items() if model in each.models and each.trains)
    text = write_paper_study(figure, model=model, scale=scale, file=tmp_path / "study.toml")
    text = re.sub("^train = .*$", "train = 4", text, flags=re.M)
    task, *_ = expand_study(
        parse_study(text, tmp_path / "figure.toml"), lambda model, changes: asdict(find_recipe(model, changes))
    )
    run = prepare(locate_data(task, tmp_path))
    if folder.name == "imagenet":
        assert run.data.shape == ((3, 224, 224) if scale == FULL else (3, 64, 64))
        assert run.recipe.batch == (512 if scale == FULL else 50)
    else:
        assert run.data.shape == ((1, 28, 28) if folder.name == "mnist" else (3, *SIZES[folder.name]))


@pytest.mark.parametrize("model", ["lenet-300-100", "lenet-5"])
def test_every_data_set_may_be_folders_of_images(model: str, tmp_path: Path) -> None:
    folder = tmp_path / DATA[model].path
    folder.mkdir(parents=True)
    write_data(folder, as_images=True)
    text = write_paper_study("figure4", model=model, file=tmp_path / "study.toml")
    task, *_ = expand_study(
        parse_study(text, tmp_path / "figure.toml"), lambda model, changes: asdict(find_recipe(model, changes))
    )
    assert prepare(locate_data(task, tmp_path)).data.shape == ((1, 28, 28) if folder.name == "mnist" else (3, 32, 32))


@pytest.mark.parametrize(
    ("figure", "model", "seeds"),
    [("figure3", "resnet50", 5), ("figure8", "resnet50", 1), ("figure8", "lenet-5", 3), ("figure7", "lenet-5", 1)],
)
def test_networks_are_repeated_as_often_as_in_the_paper(figure: str, model: str, seeds: int) -> None:
    assert f"\nseeds = {seeds}\n" in write_paper_study(figure, model=model)
