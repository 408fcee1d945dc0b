"""Pruned connections that would be active if they were kept."""

from __future__ import annotations

from collections.abc import Mapping

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths import collect_edges
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.split import SplitWeights
from effsparse_cli.paths.mixed_weights import pack_weights
from effsparse_cli.paths.passes import Pass


def find_joining(graph: Graph, candidates: Mapping[str, Bools]) -> dict[str, Bools]:
    """Return which candidates, which the graph does not keep, join a live position to a relevant one.

    Each would be active if it were added, alone or with others. A weight that several steps use can be active without
    being found here, if its own use makes the source of another live.
    """
    other = graph.with_masks(candidates)
    weights = SplitWeights(pack_weights(graph), pack_weights(other))
    found = collect_edges(other, Pass(BOOLEAN, weights, graph))
    return {name: found[name].mask("active") for name in candidates}
