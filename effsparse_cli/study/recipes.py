"""Training recipes: those of the paper's Table 1 by model name, and what a study changes in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from effsparse_cli.errors import UsageError

AUGMENTATIONS = ("shift", "flip", "rotate", "crop")
"""Shifts by up to 4 pixels, horizontal flips, rotations by up to 4 degrees, random crops to the input size."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """SGD on the cross-entropy. The learning rate drops by a factor of 10 at the start of each epoch in `drops`, epochs
    counted from 0."""

    epochs: int
    drops: tuple[int, ...] = ()
    batch: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    decay: float = 0.0
    augment: tuple[str, ...] = ()
    device: str = "cpu"

    def lr_at(self, epoch: int) -> float:
        return self.lr * 0.1 ** sum(epoch >= drop for drop in self.drops)


SMALL_IMAGES, LARGE_IMAGES = ("shift", "flip"), ("crop", "flip")

RECIPES: dict[str, Recipe] = {
    "lenet-300-100": Recipe(epochs=160, drops=(41, 83, 125), batch=100, lr=0.1, decay=5e-4, augment=("rotate",)),
    "lenet-5": Recipe(epochs=307, drops=(76, 153, 230), batch=128, lr=0.1, decay=5e-4, augment=SMALL_IMAGES),
    "vgg16-cifar": Recipe(epochs=160, drops=(80, 120), batch=128, lr=0.1, decay=1e-4, augment=SMALL_IMAGES),
    "vgg19-cifar": Recipe(epochs=160, drops=(80, 120), batch=128, lr=0.1, decay=5e-4, augment=SMALL_IMAGES),
    "resnet18-tiny": Recipe(epochs=200, drops=(100, 150), batch=256, lr=0.2, decay=1e-4, augment=SMALL_IMAGES),
    "resnet50": Recipe(epochs=90, drops=(30, 60, 80), batch=512, lr=0.4, decay=1e-4, augment=LARGE_IMAGES),
    "mobilenet-v2": Recipe(epochs=90, drops=(30, 60, 80), batch=512, lr=0.4, decay=1e-4, augment=LARGE_IMAGES),
}
"""Table 1 of the paper, with the augmentations of its appendix."""


def find_recipe(model: str, changes: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a built-in model with some values changed, or the recipe that the changes alone describe.

    With another number of epochs, the drops of Table 1 move in proportion, but never to the start of training and
    never to the same epoch, unless they are changed too.
    """
    known = [field.name for field in fields(Recipe)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise UsageError(f"recipe: unknown setting {unknown[0]!r}. The settings are {', '.join(known)}.")
    usual = RECIPES.get(model)
    if usual is None and "epochs" not in changes:
        raise UsageError(f"recipe: {model} has no built-in recipe: set at least its epochs.")
    values: dict[str, Any] = {} if usual is None else asdict(usual)
    values.update({name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()})
    if usual is not None and "drops" not in changes and _is_whole(values["epochs"]):
        moved = (max(1, round(drop * values["epochs"] / usual.epochs)) for drop in usual.drops)
        values["drops"] = tuple(dict.fromkeys(moved))
    _check(values)
    return Recipe(**values)


def _check(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name in ("epochs", "batch") and not (_is_whole(value) and value >= (2 if name == "batch" else 0)):
            raise UsageError(f"recipe: {name} is {value!r}: use a whole number, {2 if name == 'batch' else 0} or more.")
        if name in ("lr", "momentum", "decay") and not (_is_number(value) and value >= 0):
            raise UsageError(f"recipe: {name} is {value!r}: it must be a non-negative number.")
        if name == "drops" and not (isinstance(value, tuple) and all(_is_whole(drop) and drop >= 0 for drop in value)):
            raise UsageError(f"recipe: drops is {value!r}: use a list of epochs.")
        if name == "augment":
            strange = [each for each in value if each not in AUGMENTATIONS] if isinstance(value, tuple) else [value]
            if strange:
                raise UsageError(f"recipe: augment {strange[0]!r}: use a list of {', '.join(AUGMENTATIONS)}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
