"""Batches: normalization, augmentations, and draws that depend on the seed alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.errors import UsageError
from effsparse_cli.study.data.batches import (
    AUGMENTATIONS,
    count_batches,
    generator,
    plain_batches,
    rotate,
    shift,
    shuffle,
    training_batch,
)
from effsparse_cli.study.data.dataset import Data, Split, Stored

IMAGES = torch.randint(0, 256, (32, 3, 12, 12), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
SPLIT = Split(Stored(IMAGES), torch.arange(32) % 4)
DATA = Data(SPLIT, SPLIT, 4)
FLOATS = IMAGES.float() / 255


def test_training_examples_are_normalized_per_channel() -> None:
    (x, y), *rest = plain_batches(DATA, DATA.train, 100)
    assert not rest
    assert y.tolist() == SPLIT.labels.tolist()
    assert x.mean((0, 2, 3)) == pytest.approx(torch.zeros(3), abs=1e-5)
    assert x.std((0, 2, 3), correction=0) == pytest.approx(torch.ones(3), abs=1e-5)


def test_constant_channels_are_not_divided_by_zero() -> None:
    split = Split(Stored(torch.zeros(4, 2, 3, 3, dtype=torch.uint8)), torch.arange(4))
    (x, _), *_ = plain_batches(Data(split, split, 4), split, 4)
    assert not x.any()


@pytest.mark.parametrize("name", [*AUGMENTATIONS])
def test_augmentations_are_drawn_from_the_generator(name: str) -> None:
    data = Data(SPLIT, SPLIT, 4, size=8)
    size = 8 if name == "crop" else 12
    first, same, other = (AUGMENTATIONS[name](FLOATS, generator(seed), 8) for seed in (0, 0, 1))
    assert first.shape == (32, 3, size, size)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert training_batch(data, torch.arange(5), [name], generator(0))[0].shape == (5, 3, 8, 8)


def test_shifts_move_whole_images() -> None:
    shifted = shift(FLOATS, generator(0), None)
    padded = torch.nn.functional.pad(FLOATS, (4,) * 4)
    seen = set()
    for i in range(len(FLOATS)):
        places = [
            (top, left)
            for top in range(9)
            for left in range(9)
            if torch.equal(shifted[i], padded[i, :, top : top + 12, left : left + 12])
        ]
        assert len(places) == 1
        seen.update(places)
    assert len(seen) > 16


def test_rotations_are_small_and_around_the_center() -> None:
    image = torch.zeros(200, 1, 41, 61)
    image[:, :, 20, 50] = 1.0  # 20 pixels right of the center
    turned = rotate(image, generator(0), None)
    mass = turned.sum((1, 2, 3))
    rows = (turned.sum((1, 3)) * torch.arange(41)).sum(1) / mass - 20
    columns = (turned.sum((1, 2)) * torch.arange(61)).sum(1) / mass - 30
    angles = torch.atan2(rows, columns).rad2deg()
    assert angles.abs().max() < 4.6  # bilinear sampling moves the center a little
    assert angles.min() < -2
    assert angles.max() > 2
    assert (rows**2 + columns**2).sqrt() == pytest.approx(torch.full((200,), 20.0), abs=0.6)


def test_flips_about_half() -> None:
    flipped = AUGMENTATIONS["flip"](FLOATS, generator(0), None)
    which = [torch.equal(flipped[i], FLOATS[i].flip(-1)) for i in range(32)]
    assert all(moved or torch.equal(flipped[i], FLOATS[i]) for i, moved in enumerate(which))
    assert 8 < sum(which) < 24


def test_crops_need_larger_images_and_augmentations_need_images() -> None:
    with pytest.raises(UsageError, match="needs images larger than the input"):
        AUGMENTATIONS["crop"](FLOATS, generator(0), None)
    flat = Split(Stored(torch.zeros(4, 5)), torch.arange(4))
    with pytest.raises(UsageError, match="the examples are flat"):
        training_batch(Data(flat, flat, 4), torch.arange(4), ["flip"], generator(0))


@given(st.integers(0, 5000), st.integers(2, 300))
def test_every_example_is_in_one_batch(examples: int, batch: int) -> None:
    batches = torch.split(shuffle(examples, 1, 2), batch)[: count_batches(examples, batch)]
    assert count_batches(examples, batch) in (math.ceil(examples / batch), examples // batch)
    assert all(len(each) > 1 for each in batches)
    seen = torch.cat([*batches, torch.zeros(0, dtype=torch.int64)])
    assert len({*seen.tolist()}) == len(seen) >= examples - 1
