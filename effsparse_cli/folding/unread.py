"""Find biases and norm parameters of channels that nothing reads: setting them to zero changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.folding.carriers import OperatorOutput
from effsparse_cli.folding.decide import BiasSlot
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True, eq=False)
class ChannelParameters:
    """The stored parameters of the channels of an operator's output: its bias, and those of a norm after it: the scale,
    and all that nothing else uses."""

    output: OperatorOutput
    bias: BiasSlot | None
    scale: str | None = None
    norm: tuple[str, ...] = ()


def find_unread(parameters: Iterable[ChannelParameters], read: Callable[[str], NDArray[Any]]) -> dict[str, Bools]:
    """Return, by stored tensor, the elements that nothing reads and that are not zero; `read` returns a tensor."""
    unread: dict[str, Bools] = {}
    for each in parameters:
        dead = np.flatnonzero(each.output.dead)
        indices = {each.bias.name: each.bias.index[dead]} if each.bias is not None else {}
        if each.scale is not None:
            # After a scale of zero the channel may still be read, because of the shift.
            dead = dead[read(each.scale)[dead] != 0]
        for name, index in {**indices, **dict.fromkeys(each.norm, dead)}.items():
            array = read(name)
            where = np.zeros(array.size, bool)
            where[index] = True
            where = where.reshape(array.shape) & (array != 0)
            if where.any():
                unread[name] = where
    return unread
