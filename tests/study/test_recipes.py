"""Recipes: the paper's Table 1, learning rates, changes, and bad settings."""

from __future__ import annotations

from typing import Any

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.architectures import ARCHITECTURES
from effsparse_cli.study.recipes import RECIPES, Recipe, find_recipe

TABLE_1 = {
    "lenet-300-100": (160, (41, 83, 125), 100, 0.1, 5e-4, ("rotate",)),
    "lenet-5": (307, (76, 153, 230), 128, 0.1, 5e-4, ("shift", "flip")),
    "vgg16-cifar": (160, (80, 120), 128, 0.1, 1e-4, ("shift", "flip")),
    "vgg19-cifar": (160, (80, 120), 128, 0.1, 5e-4, ("shift", "flip")),
    "resnet18-tiny": (200, (100, 150), 256, 0.2, 1e-4, ("shift", "flip")),
    "resnet50": (90, (30, 60, 80), 512, 0.4, 1e-4, ("crop", "flip")),
    "mobilenet-v2": (90, (30, 60, 80), 512, 0.4, 1e-4, ("crop", "flip")),
}
"""Epochs, drops, batch, learning rate and decay of the table; augmentations of the appendix."""


def test_table_1() -> None:
    found = {name: (r.epochs, r.drops, r.batch, r.lr, r.decay, r.augment) for name, r in RECIPES.items()}
    assert found == TABLE_1
    assert found.keys() == ARCHITECTURES.keys()
    assert {recipe.momentum for recipe in RECIPES.values()} == {0.9}


def test_learning_rate_drops_tenfold_at_each_drop() -> None:
    recipe = RECIPES["vgg16-cifar"]
    found = [recipe.lr_at(epoch) for epoch in (0, 79, 80, 119, 120, 159)]
    assert found == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_drops_move_with_the_number_of_epochs() -> None:
    assert find_recipe("lenet-300-100", {"epochs": 16}).drops == (4, 8, 12)
    assert find_recipe("lenet-300-100", {"epochs": 16, "drops": [3]}).drops == (3,)
    assert find_recipe("resnet50", {"epochs": 1}).lr_at(0) == find_recipe("resnet50", {}).lr
    assert find_recipe("lenet-5", {"epochs": 2}).drops == (1,)
    assert find_recipe("own:model", {"epochs": 2, "lr": 1}) == Recipe(epochs=2, lr=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": 3}, "unknown setting 'epoch'"),
        ({"epochs": 2.5}, "epochs is 2.5: use a whole number"),
        ({"epochs": True}, "epochs is True"),
        ({"batch": 1}, "batch is 1: use a whole number, 2 or more"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"decay": -1}, "decay is -1"),
        ({"drops": [1.5]}, "use a list of epochs"),
        ({"augment": ["mirror"]}, "'mirror': use a list of shift, flip, rotate, crop"),
        ({"augment": "flip"}, "use a list"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_recipe("lenet-5", changes)


def test_other_models_need_epochs() -> None:
    with pytest.raises(UsageError, match="set at least its epochs"):
        find_recipe("own:model", {})
