"""Biases and batch-norm parameters of channels that nothing reads: setting them to zero changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.onnx.bias_slots import bias_name, find_slot, following_norm, only_for
from effsparse_cli.folding.onnx.wiring import WeightUse, Wiring
from effsparse_cli.graph.primitives import Bools, Ints


def find_unread(
    wiring: Wiring, activity: Mapping[str, LayerActivity], uses: Mapping[str, Sequence[WeightUse]]
) -> dict[str, Bools]:
    """Return, by stored tensor, the elements that can be set to zero and are not zero yet."""
    found: dict[str, Bools] = {}
    for name, some in uses.items():
        output = activity[name].output
        if output is None or len(some) != 1:
            continue
        dead = np.flatnonzero(output.dead)
        if not len(dead):
            continue
        if bias_name(wiring, some[0]) is not None:
            slot, _ = find_slot(wiring, some[0], some, len(output.dead))
            if slot is not None and not slot.new:
                _mark(wiring, found, slot.name, slot.index[dead])
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
