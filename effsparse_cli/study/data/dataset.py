"""A data set in memory or in files: examples, labels, and the statistics of each channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.pruning.scores.random import draw

MOST_FOR_STATISTICS = 10_000
"""More examples than that do not change a mean."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What to read; None is the default of the reader."""

    path: str
    train: int | None = None
    test: int | None = None
    size: int | None = None
    resize: int | None = None
    channels: int | None = None


class Examples(Protocol):
    """Examples that are read by position, as uint8 for images and as floats otherwise."""

    def __len__(self) -> int: ...
    def read(self, positions: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True, eq=False)
class Stored:
    """Examples in memory."""

    tensor: torch.Tensor

    def __len__(self) -> int:
        return len(self.tensor)

    def read(self, positions: torch.Tensor) -> torch.Tensor:
        return self.tensor[positions]


@dataclass(frozen=True, eq=False)
class Split:
    """`labels` are class numbers from 0."""

    examples: Examples
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Data:
    """`size` is the side of the images that a network gets, where it differs from that of the stored ones."""

    train: Split
    test: Split
    classes: int
    size: int | None = None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example, as a network gets it."""
        stored = tuple(self.train.examples.read(torch.tensor([0])).shape[1:])
        return stored if self.size is None else (*stored[:-2], self.size, self.size)

    @cached_property
    def statistics(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean and the standard deviation of each channel over the training set. Flat examples have one channel.
        Integers that are not images, such as those of words, stay as they are."""
        kind = self.train.examples.read(torch.tensor([0])).dtype
        if not kind.is_floating_point and kind != torch.uint8:
            return torch.zeros(1), torch.ones(1)
        chosen = choose_examples(len(self.train), MOST_FOR_STATISTICS)
        count, total, squares = 0, torch.zeros(()).double(), torch.zeros(()).double()
        for part in torch.split(chosen, 1000):
            values = to_floats(self.train.examples.read(part)).double()
            values = values.transpose(0, 1).flatten(1) if values.ndim > 2 else values.reshape(1, -1)
            count += values.shape[1]
            total, squares = total + values.sum(1), squares + values.square().sum(1)
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
        # A constant channel has no scale.
        deviation[deviation < 1e-6] = 1.0
        return mean.float(), deviation.float()

    def normalize(self, values: torch.Tensor) -> torch.Tensor:
        mean, deviation = (
            each.reshape(1, -1, *(1,) * (values.ndim - 2)) if values.ndim > 2 else each for each in self.statistics
        )
        return (values - mean) / deviation


def to_floats(values: torch.Tensor) -> torch.Tensor:
    """Return images with values from 0 to 1; examples that are not images stay as they are."""
    return values.float() / 255 if values.dtype == torch.uint8 else values.float()


def choose_examples(total: int, limit: int | None) -> torch.Tensor:
    """Return the positions of `limit` examples, in order; the same ones on every machine."""
    if limit is None or limit >= total:
        return torch.arange(total)
    return torch.from_numpy(np.sort(np.argsort(draw((total,), 0, 0), kind="stable")[:limit]))


def make_data(
    train: Split,
    test: Split,
    source: Source,
    *,
    size: int | None = None,
    load: Callable[[Examples, torch.Tensor], Examples] | None = None,
) -> Data:
    """Check the labels, and take the numbers of examples that were asked for. `load` selects some examples."""
    for name, split in (("training", train), ("test", test)):
        if len(split) == 0:
            raise LoadError(f"{source.path}: there are no {name} examples.")
        if len(split.examples) != len(split.labels):
            raise LoadError(
                f"{source.path}: {len(split.examples):,} {name} examples, but {len(split.labels):,} labels."
            )
        if int(split.labels.min()) < 0:
            raise LoadError(f"{source.path}: a {name} label is negative. Labels are class numbers from 0.")
    for key, limit, split in (("train", source.train, train), ("test", source.test, test)):
        if limit is not None and limit > len(split):
            raise UsageError(f"data: {key} is {limit:,}, but {source.path} has only {len(split):,} such examples.")
    classes = int(train.labels.max()) + 1
    if int(test.labels.max()) >= classes:
        raise LoadError(
            f"{source.path}: the test labels go up to {int(test.labels.max())}, the training labels to {classes - 1}."
        )

    unknown = set(test.labels.tolist()) - set(train.labels.tolist())
    if unknown:
        raise LoadError(f"{source.path}: test examples have the label {min(unknown)}, which no training example has.")

    def take(split: Split, limit: int | None) -> Split:
        chosen = choose_examples(len(split), limit)
        examples = load(split.examples, chosen) if load else Stored(split.examples.read(chosen))
        return Split(examples, split.labels[chosen])

    return Data(take(train, source.train), take(test, source.test), classes, size)
