"""Biases and batch-norm parameters of channels that nothing reads: setting them to zero changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.onnx.homes import bias_name, find_home, following_norm, only_for
from effsparse_cli.folding.onnx.wiring import WeightUse, Wiring
from effsparse_cli.graph.primitives import Bools, Ints


def find_unread(
    wiring: Wiring, facts: Mapping[str, Facts], uses: Mapping[str, Sequence[WeightUse]]
) -> dict[str, Bools]:
    """Return, by stored tensor, the elements that can be set to zero and are not zero yet."""
    found: dict[str, Bools] = {}
    for name, some in uses.items():
        target = facts[name].target
        if target is None or len(some) != 1:
            continue
        dead = np.flatnonzero(target.dead)
        if not len(dead):
            continue
        if bias_name(wiring, some[0]) is not None:
            home, _ = find_home(wiring, some[0], some, len(target.dead))
            if home is not None and not home.new:
                _mark(wiring, found, home.name, home.index[dead])
        norm = following_norm(wiring, some[0])
        if norm is not None:
            # After a scale of zero the channel may still be read, because of the shift.
            dead = dead[wiring.value(norm.scale, {})[dead] != 0]
            for parameter in (norm.scale, norm.shift, norm.mean):
                if only_for(wiring, parameter, [norm.node]):
                    _mark(wiring, found, parameter, dead)
    return found


def _mark(wiring: Wiring, found: dict[str, Bools], name: str, index: Ints) -> None:
    array = wiring.value(name, {})
    where = np.zeros(array.size, bool)
    where[index] = True
    where = where.reshape(array.shape) & (array != 0)
    if where.any():
        found[name] = where
