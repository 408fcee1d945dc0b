"""Which pruned connections can come back, and in which order: a graph and, where there are any, dense weights enter;
one ranking leaves in which everything kept stands above everything pruned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.revived import DENSE, FILE, NONE, Dense
from effsparse_cli.paths.layouts import Layout, find_layouts
from effsparse_cli.pruning.parts import Parts, find_parts
from effsparse_cli.pruning.plan import Plan
from effsparse_cli.pruning.ranking import GLOBAL, Ranking, alike, check_names, find_quota, score, squeezed
from effsparse_cli.pruning.scores import values_of
from effsparse_cli.pruning.target import count_active

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Candidates:
    """By layer that takes part, in its stored shape: what is `kept`, what is pruned and `allowed` to come back, and
    the `scores` of all, finite. `graph` has the dense values in place of its own where these were given; `plan` says
    what was ranked by in the end."""

    graph: Graph
    plan: Plan
    parts: Parts
    layouts: Mapping[str, Layout]
    kept: Mapping[str, Bools]
    allowed: Mapping[str, Bools]
    scores: Mapping[str, Scores]
    values: str
    notes: tuple[str, ...]

    def all_back(self) -> dict[str, Bools]:
        return {name: self.kept[name] | self.allowed[name] for name in self.kept}


def find_candidates(graph: Graph, plan: Plan, dense: Dense | None) -> Candidates:
    """With values a pruned connection can come back where its value is not zero, ranked by the plan's method; where
    nothing has a value any can, ranked by chance."""
    plan = replace(plan, lsq=plan.lsq or GLOBAL, direct=False, from_masks=True)
    check_names(plan)
    parts, layouts = find_parts(graph, plan), find_layouts(graph)
    kept = {name: graph.layers[name].kept() for name in parts.pruned}
    if dense is not None:
        graph = _with_dense(graph, kept, dense)
    known = {name: values_of(graph.layers[name]) != 0 for name in parts.pruned if graph.layers[name].values}
    behind = {name: mask & ~kept[name] for name, mask in known.items()}
    values = DENSE if dense is not None else FILE if any(mask.any() for mask in behind.values()) else NONE
    if values == NONE:
        plan = replace(plan, method="random")
        allowed = {name: ~mask for name, mask in kept.items()}
    else:
        allowed = {name: behind.get(name, np.zeros_like(mask)) for name, mask in kept.items()}
    base = score(graph, replace(plan, from_masks=False), plan.method, parts, layouts)
    scores = {name: layouts[name].write(_finite(array)) for name, array in base.items()}
    notes = _notes(values, kept, allowed)
    return Candidates(graph, plan, parts, layouts, kept, allowed, scores, values, notes)


def compose(found: Candidates) -> Ranking:
    """What is kept never falls; what is pruned comes back in the order of its scores, or where there is a quota in the
    order in which the quota lets the layers grow beyond what they keep."""
    quota = find_quota(found.graph, found.plan, found.plan.lsq, found.parts, found.layouts)
    scores: dict[str, Scores] = {}
    for i, name in enumerate(found.parts.pruned):
        layout, kept = found.layouts[name], found.kept[name]
        ranked = np.where(kept, np.inf, found.scores[name])
        if quota is not None:
            ranked = layout.write(squeezed(quota, i, layout.read(ranked)))
        scores[name] = np.where(kept, np.inf, np.where(found.allowed[name], ranked, -np.inf))
    available = {name: found.layouts[name].read(mask) for name, mask in found.all_back().items()}
    return Ranking(alike(found.graph, scores), found.parts, found.layouts, available, quota)


def check_path(found: Candidates) -> None:
    """Is there any path at all, with everything back that can come back?"""
    if count_active(found.graph.with_masks(found.all_back()), found.parts.counted):
        return
    missing = {
        DENSE: "the dense weights are zero where a path would have to run",
        FILE: "only connections with a value behind the file's masks can come back: give the dense weights",
        NONE: "the network is cut by something that is no connection, such as a norm's scales",
    }
    layers = "layers left out can get nothing back, and " if len(found.parts.pruned) < len(found.parts.counted) else ""
    raise UsageError(
        f"no path from an input to an output is left even with every connection revived that can be: {layers}"
        f"{missing[found.values]}"
    )


def _with_dense(graph: Graph, kept: Mapping[str, Bools], dense: Dense) -> Graph:
    """Dense weights where something is pruned, the layer's own where it is kept."""
    layers = dict(graph.layers)
    for name, mask in kept.items():
        if mask.all():
            continue
        if name not in dense:
            raise UsageError(f"the dense weights have no layer {name}, which is pruned: is it another model?")
        if dense[name].shape != mask.shape:
            raise UsageError(f"{name} has shape {mask.shape} here and {dense[name].shape} in the dense weights")
        layers[name] = replace(layers[name], values=partial(_merged, layers[name], mask, dense[name]))
    return replace(graph, layers=layers)


def _merged(layer: Layer, kept: Bools, dense: NDArray[Any]) -> NDArray[Any]:
    return dense if layer.values is None else np.where(kept, values_of(layer), dense)


def _finite(scores: Scores) -> Scores:
    """What is not a number, or infinite, has the best of scores, but below what is kept."""
    return np.minimum(scores, np.finfo(scores.dtype).max)


def _notes(values: str, kept: Mapping[str, Bools], allowed: Mapping[str, Bools]) -> tuple[str, ...]:
    if values == NONE:
        return ("pruned connections have no values here, so chance ranks them",)
    without = [name for name, mask in kept.items() if not mask.all() and not allowed[name].any()]
    if not without:
        return ()
    named = ", ".join(without[:5]) + (" ..." if len(without) > 5 else "")
    return (f"no pruned connection has a value in {named}, so none comes back there",)
