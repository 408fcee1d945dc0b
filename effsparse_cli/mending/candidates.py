"""Which pruned connections can be revived, and in which order. The result is one ranking in which every kept connection
is above every pruned one.
"""

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
from effsparse_cli.mending.result import DENSE, FILE, NONE, DenseWeights
from effsparse_cli.pruning import GLOBAL
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.ranking import Ranking, add_fixed_layers, apply_quota, check_names, find_quota, score_layers
from effsparse_cli.pruning.scope import Scope, find_scope
from effsparse_cli.pruning.scores.inputs import Scores, read_values
from effsparse_cli.pruning.target import count_active


@dataclass(frozen=True)
class Candidates:
    """By layer in scope, in its stored shape: the `kept` connections, the pruned ones `allowed` to be revived, and
    finite `scores` of both. The graph of `scope` has the dense weights, if any; `plan` has the method that was used."""

    plan: PrunePlan
    scope: Scope
    kept: Mapping[str, Bools]
    allowed: Mapping[str, Bools]
    scores: Mapping[str, Scores]
    values: str
    notes: tuple[str, ...]

    def all_revived(self) -> dict[str, Bools]:
        return {name: self.kept[name] | self.allowed[name] for name in self.kept}


def find_candidates(graph: Graph, plan: PrunePlan, dense: DenseWeights | None) -> Candidates:
    """Return the pruned connections with nonzero values, ranked by the plan's method; if there are no values at all,
    return every pruned connection, ranked at random."""
    plan = replace(plan, lsq=plan.lsq or GLOBAL, direct=False, from_masks=True)
    check_names(plan)
    scope = find_scope(graph, plan)
    kept = {name: graph.layers[name].kept() for name in scope.pruned}
    if dense is not None:
        graph = _with_dense(graph, kept, dense)
        scope = replace(scope, graph=graph)
    nonzero = {name: read_values(graph.layers[name]) != 0 for name in scope.pruned if graph.layers[name].values}
    hidden = {name: mask & ~kept[name] for name, mask in nonzero.items()}
    values = DENSE if dense is not None else FILE if any(mask.any() for mask in hidden.values()) else NONE
    if values == NONE:
        plan = replace(plan, method="random")
        allowed = {name: ~mask for name, mask in kept.items()}
    else:
        allowed = {name: hidden.get(name, np.zeros_like(mask)) for name, mask in kept.items()}
    base = score_layers(replace(plan, from_masks=False), plan.method, scope)
    scores = {name: scope.layouts[name].write(_make_finite(array)) for name, array in base.items()}
    return Candidates(plan, scope, kept, allowed, scores, values, _notes(values, kept, allowed))


def rank_candidates(candidates: Candidates) -> Ranking:
    """Rank kept connections above all others. Pruned ones follow in the order of their scores or, with a quota, in the
    order in which the quota lets the layers grow."""
    scope = candidates.scope
    quota = find_quota(candidates.plan, candidates.plan.lsq, scope)
    scores: dict[str, Scores] = {}
    for i, name in enumerate(scope.pruned):
        layout, kept = scope.layouts[name], candidates.kept[name]
        ranked = np.where(kept, np.inf, candidates.scores[name])
        if quota is not None:
            ranked = layout.write(apply_quota(quota, i, layout.read(ranked)))
        scores[name] = np.where(kept, np.inf, np.where(candidates.allowed[name], ranked, -np.inf))
    available = {name: scope.layouts[name].read(mask) for name, mask in candidates.all_revived().items()}
    return Ranking(add_fixed_layers(scope.graph, scores), scope, available, quota)


def check_path(candidates: Candidates) -> None:
    """Raise an error if there is no path even with every candidate revived."""
    scope = candidates.scope
    if count_active(scope.graph.with_masks(candidates.all_revived()), scope.counted):
        return
    reasons = {
        DENSE: "the dense weights are zero on every path",
        FILE: "only masked connections with a value in the file can be revived. Pass the dense weights",
        NONE: "something other than connections cuts the network, for example the scales of a norm",
    }
    layers = "nothing is revived in layers left out, and " if len(scope.pruned) < len(scope.counted) else ""
    raise UsageError(
        "no path from an input to an output exists even if every possible connection is revived: "
        f"{layers}{reasons[candidates.values]}"
    )


def _with_dense(graph: Graph, kept: Mapping[str, Bools], dense: DenseWeights) -> Graph:
    """Return the graph with dense weights for pruned connections and its own for kept ones."""
    layers = dict(graph.layers)
    for name, mask in kept.items():
        if mask.all():
            continue
        if name not in dense:
            raise UsageError(
                f"the dense weights have no layer {name}, which is pruned. Pass the weights of the same model."
            )
        if dense[name].shape != mask.shape:
            raise UsageError(f"{name} has shape {mask.shape}, but {dense[name].shape} in the dense weights")
        layers[name] = replace(layers[name], values=partial(_merge, layers[name], mask, dense[name]))
    return replace(graph, layers=layers)


def _merge(layer: Layer, kept: Bools, dense: NDArray[Any]) -> NDArray[Any]:
    return dense if layer.values is None else np.where(kept, read_values(layer), dense)


def _make_finite(scores: Scores) -> Scores:
    """Replace infinite scores by the largest finite number, below what kept connections get."""
    return np.minimum(scores, np.finfo(scores.dtype).max)


def _notes(values: str, kept: Mapping[str, Bools], allowed: Mapping[str, Bools]) -> tuple[str, ...]:
    if values == NONE:
        return ("pruned connections have no values in this file, so they are ranked at random",)
    without = [name for name, mask in kept.items() if not mask.all() and not allowed[name].any()]
    if not without:
        return ()
    named = ", ".join(without[:5]) + (" ..." if len(without) > 5 else "")
    return (f"no pruned connection has a value in {named}, so none is revived there",)
