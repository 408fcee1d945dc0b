"""Runs an ONNX model and measures at chosen operators what some connections alone add to the output: inputs enter,
the spreads of each operator's amounts leave, one per input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.onnx.removable import part_of
from effsparse_cli.folding.onnx.run import Runner, run_one
from effsparse_cli.folding.onnx.wiring import Site, Wiring
from effsparse_cli.folding.uniform import Spread, measure
from effsparse_cli.formats.onnx.tensors.stored import Array


@dataclass(frozen=True, eq=False)
class Watched:
    """An operator, and what the graph says of the layer that it uses."""

    site: Site
    facts: Facts


def observe(
    wiring: Wiring, running: ModelProto, folder: Path, watched: Sequence[Watched], drawn: Sequence[Mapping[str, Array]]
) -> list[list[Spread]]:
    """For each operator one spread per drawn input. `running` is the model without what cannot be run."""
    entering = {each.site.node.input[0]: None for each in watched}
    runner = Runner(running, folder, list(entering))
    runs = [dict(zip(entering, runner(feeds), strict=True)) for feeds in drawn]
    return [[_look(wiring, each, values[each.site.node.input[0]]) for values in runs] for each in watched]


def _look(wiring: Wiring, watched: Watched, x: Array) -> Spread:
    site, facts = watched.site, watched.facts
    stored = wiring.store.under(facts.layer.name)
    assert stored is not None
    weight = part_of(wiring, stored, site.leaf, site.weight, facts.carrier)
    amount, magnitude = (
        run_one(site.node, [a, w], wiring.model) for a, w in ((x, weight), (np.abs(x), np.abs(weight)))
    )
    axis = site.contraction.channel_axis % amount.ndim
    return measure(amount.astype(np.float64), magnitude.astype(np.float64), axis, facts.target)
