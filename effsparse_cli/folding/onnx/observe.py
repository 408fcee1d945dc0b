"""Runs an ONNX model and measures, at chosen op calls, what some connections alone add to the result: inputs in, one
measured of amounts per input and call out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.constant_ranges import ConstantRange, measure_range
from effsparse_cli.folding.onnx.removable import part_of
from effsparse_cli.folding.onnx.run import Runner, run_one
from effsparse_cli.folding.onnx.wiring import WeightUse, Wiring
from effsparse_cli.formats.onnx.tensors.stored import Array


@dataclass(frozen=True, eq=False)
class Watched:
    """A weight use, and what the graph says about its layer."""

    use: WeightUse
    activity: LayerActivity


def observe(
    wiring: Wiring, running: ModelProto, folder: Path, watched: Sequence[Watched], drawn: Sequence[Mapping[str, Array]]
) -> list[list[ConstantRange]]:
    """Return one measured per drawn input for each weight use. `running` is the model without unrunnable operators."""
    activations = {each.use.node.input[0]: None for each in watched}
    runner = Runner(running, folder, list(activations))
    runs = [dict(zip(activations, runner(feeds), strict=True)) for feeds in drawn]
    return [[_measure(wiring, each, values[each.use.node.input[0]]) for values in runs] for each in watched]


def _measure(wiring: Wiring, watched: Watched, x: Array) -> ConstantRange:
    use, activity = watched.use, watched.activity
    stored = wiring.store.under(activity.layer.name)
    assert stored is not None
    weight = part_of(wiring, stored, use.stored, use.weight, activity.carrier)
    amount, magnitude = (run_one(use.node, [a, w], wiring.model) for a, w in ((x, weight), (np.abs(x), np.abs(weight))))
    axis = use.contraction.channel_axis % amount.ndim
    return measure_range(amount.astype(np.float64), magnitude.astype(np.float64), axis, activity.output)
