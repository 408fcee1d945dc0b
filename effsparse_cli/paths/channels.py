"""An array as classes of channels: empty, full, or one of the few distinct maps of positions that occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.bits import some

EMPTY, FULL = 0, 1


@dataclass(frozen=True, eq=False)
class Channels:
    """An array as one class per channel and one map per class: maps[EMPTY] is False, maps[FULL] True."""

    classes: NDArray[np.intp]
    maps: Bools

    @property
    def partial(self) -> bool:
        return len(self.maps) > 2


def sort_channels(a: Bools, rank: int, channels: int) -> Channels:
    """`rank` spatial axes follow the channel axis; maps keep the other axes as they are stored."""
    axis = a.ndim - rank - 1
    front = np.moveaxis(a, axis, 0)
    if front[0].size == 1:
        classes = np.broadcast_to(front.reshape(-1), channels).astype(np.intp)
        return Channels(classes, plain_maps(a.ndim))
    flat = front.reshape(len(front), -1)
    full, live = ~some(~flat, 1), some(flat, 1)
    classes = full.astype(np.intp)
    partial = np.flatnonzero(live & ~full)
    if not len(partial):
        return Channels(np.broadcast_to(classes, channels), plain_maps(a.ndim))
    first, inverse = intern(np.packbits(flat[partial], axis=1))
    classes[partial] = inverse + 2
    maps = np.concatenate([np.zeros_like(front[:1]), np.ones_like(front[:1]), front[partial[first]]])
    return Channels(np.broadcast_to(classes, channels), maps)


def join_channels(classes: NDArray[np.intp], maps: Bools, rank: int) -> Bools:
    """One map per channel, the channel axis back in its place, uniform axes stored once."""
    for axis in range(1, maps.ndim):
        if maps.shape[axis] > 1 and (maps == maps.take([0], axis=axis)).all():
            maps = maps.take([0], axis=axis)
    if (classes == classes[0]).all():
        classes = classes[:1]
    return np.moveaxis(maps[classes], 0, maps.ndim - rank - 1)


def intern(rows: NDArray[np.uint8]) -> tuple[list[int], NDArray[np.intp]]:
    """Equal rows get one number: the first row of each, and the number of every row."""
    seen: dict[bytes, int] = {}
    first: list[int] = []
    numbers = np.empty(len(rows), np.intp)
    for i, row in enumerate(rows):
        number = seen.setdefault(row.tobytes(), len(seen))
        if number == len(first):
            first.append(i)
        numbers[i] = number
    return first, numbers


def plain_maps(rank: int) -> Bools:
    """The maps of EMPTY and FULL alone: equal along every axis."""
    return np.array([False, True]).reshape(2, *(1,) * (rank - 1))
