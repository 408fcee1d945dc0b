"""Batches of a data set: shuffled, augmented and normalized. Everything drawn depends on the seed, the epoch and the
batch alone, so that a run that was interrupted draws the same."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn import functional as F

from effsparse_cli.errors import UsageError
from effsparse_cli.study.data.dataset import Data, Split, to_floats

SHIFT, DEGREES = 4, 4.0
"""The largest shift in pixels and the largest rotation (the paper's appendix)."""


def derive_seed(*parts: object) -> int:
    """Return a seed for a purpose, such as (seed, epoch, batch)."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()) >> 1


def generator(*parts: object) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(*parts))


def seed_draws(*parts: object) -> None:
    """Seed everything that the user's own code may draw from."""
    seed = derive_seed(*parts)
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    random.seed(seed)


@contextmanager
def restored_draws(device: torch.device) -> Iterator[None]:
    """Restore at the end of the block what `seed_draws` changes."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device], device_type=device.type):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def draws_numbers(call: Callable[[], object]) -> bool:
    """Whether a call draws random numbers on the CPU."""

    def state() -> str:
        return repr((random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state().tolist()))

    with restored_draws(torch.device("cpu")):
        before = state()
        call()
        return state() != before


def count_batches(examples: int, batch: int) -> int:
    """A last batch of one example is left out, because batch norm has no statistics for it."""
    return examples // batch + (examples % batch > 1)


def shuffle(examples: int, seed: int, epoch: int) -> torch.Tensor:
    return torch.randperm(examples, generator=generator("order", seed, epoch))


def training_batch(
    data: Data, positions: torch.Tensor, augment: Sequence[str], draws: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    images = to_floats(data.train.examples.read(positions))
    check_augmentations(augment, images)
    for name in augment:
        images = AUGMENTATIONS[name](images, draws, data.size)
    images = cut_center(images, data.size)
    return data.normalize(images), data.train.labels[positions]


def plain_batches(data: Data, split: Split, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield all examples in order, not augmented."""
    for positions in torch.split(torch.arange(len(split)), batch):
        images = cut_center(to_floats(split.examples.read(positions)), data.size)
        yield data.normalize(images), split.labels[positions]


def check_augmentations(augment: Sequence[str], images: torch.Tensor) -> None:
    if augment and images.ndim != 4:
        raise UsageError(f"recipe: augment {augment[0]!r} needs images, but the examples are flat.")


def shift(images: torch.Tensor, draws: torch.Generator, size: int | None) -> torch.Tensor:
    """Shift each image by up to 4 pixels in any direction; new pixels are black."""
    count, _, height, width = images.shape
    tops, lefts = torch.randint(0, 2 * SHIFT + 1, (2, count), generator=draws)
    return _cut(F.pad(images, (SHIFT,) * 4), tops, lefts, (height, width))


def flip(images: torch.Tensor, draws: torch.Generator, size: int | None) -> torch.Tensor:
    chosen = torch.rand(len(images), generator=draws) < 0.5
    return torch.where(chosen[:, None, None, None], images.flip(-1), images)


def rotate(images: torch.Tensor, draws: torch.Generator, size: int | None) -> torch.Tensor:
    """Rotate each image by up to 4 degrees around its center; new pixels are black."""
    angles = (2 * torch.rand(len(images), generator=draws) - 1) * math.radians(DEGREES)
    cosine, sine = angles.cos()[:, None, None], angles.sin()[:, None, None]
    height, width = images.shape[-2:]
    down = (torch.arange(height) + 0.5 - height / 2)[:, None]
    right = torch.arange(width) + 0.5 - width / 2
    # From -1 to 1 along each axis.
    places = (cosine * right - sine * down) / (width / 2), (sine * right + cosine * down) / (height / 2)
    return F.grid_sample(images, torch.stack(places, -1), align_corners=False)


def crop(images: torch.Tensor, draws: torch.Generator, size: int | None) -> torch.Tensor:
    """Cut a random square of the input size out of each image."""
    if size is None:
        raise UsageError("recipe: augment 'crop' needs images larger than the input: set size and resize of the data.")
    count, _, height, width = images.shape
    tops = torch.randint(0, height - size + 1, (count,), generator=draws)
    lefts = torch.randint(0, width - size + 1, (count,), generator=draws)
    return _cut(images, tops, lefts, (size, size))


def cut_center(images: torch.Tensor, size: int | None) -> torch.Tensor:
    if size is None or images.shape[-2:] == (size, size):
        return images
    top, left = (images.shape[-2] - size) // 2, (images.shape[-1] - size) // 2
    return images[..., top : top + size, left : left + size]


def _cut(images: torch.Tensor, tops: torch.Tensor, lefts: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    count, channels = images.shape[:2]
    rows, columns = tops[:, None] + torch.arange(shape[0]), lefts[:, None] + torch.arange(shape[1])
    example, channel = torch.arange(count)[:, None, None, None], torch.arange(channels)[:, None, None]
    return images[example, channel, rows[:, None, :, None], columns[:, None, None, :]]


AUGMENTATIONS: dict[str, Callable[[torch.Tensor, torch.Generator, int | None], torch.Tensor]] = {
    "shift": shift,
    "flip": flip,
    "rotate": rotate,
    "crop": crop,
}
