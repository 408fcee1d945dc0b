"""The scope of a pruning run: which layers count, and which of them are pruned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from effsparse_cli.errors import NothingToMeasureError, UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.layer_names import check_patterns, matches, select_names
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import Layout, find_layouts
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.scores.inputs import read_values


@dataclass(frozen=True)
class Scope:
    """Names of layers in execution order: `counted` layers make up the totals, `pruned` layers are pruned."""

    graph: Graph
    counted: tuple[str, ...]
    pruned: tuple[str, ...]

    @cached_property
    def connections(self) -> int:
        return sum(math.prod(self.graph.layers[name].shape) for name in self.counted)

    @cached_property
    def layouts(self) -> Mapping[str, Layout]:
        return find_layouts(self.graph)


def find_scope(graph: Graph, plan: PrunePlan) -> Scope:
    counted = tuple(name for name, layer in graph.layers.items() if plan.count_embeddings or not layer.embedding)
    if not counted:
        raise NothingToMeasureError(
            "nothing to prune: no operator multiplies by a stored weight that counts. "
            "Use --count-embeddings to count embedding tables"
        )
    only = select_names(counted, plan.only, "--only")
    check_patterns(counted, plan.exclude, "--exclude")
    pruned = tuple(name for name in counted if name in only and not matches(name, plan.exclude))
    if not pruned:
        raise UsageError("--only and --exclude leave no layer to prune")
    _check_mixed(graph, pruned)
    return Scope(graph, counted, pruned)


def find_available(graph: Graph, plan: PrunePlan, name: str) -> Bools:
    """Return which connections of a layer can be kept, in the stored shape.

    A masked connection can be kept again unless the plan starts from the masks. A zero weight cannot: whatever is
    written, it stays zero.
    """
    layer = graph.layers[name]
    if plan.from_masks or layer.values is None:
        return layer.kept()
    return np.asarray(read_values(layer) != 0)


def _check_mixed(graph: Graph, pruned: Sequence[str]) -> None:
    """A mixed weight cannot be pruned by removing stored numbers."""
    sources = {name for mixed_weight in graph.mixed_weights.values() for name in mixed_weight.sources}
    mixed = [name for name in pruned if name in sources]
    if mixed:
        named = ", ".join(mixed[:5]) + (f" and {len(mixed) - 5} more" if len(mixed) > 5 else "")
        raise UsageError(
            f"{named}: weights are mixed before use (weight standardization, weight or spectral norm, a product "
            "of weights), so removing a stored weight changes other weights instead of removing a connection. Leave "
            "these layers out with --exclude, or fold the computation into ordinary weights first, for example with "
            "torch.nn.utils.parametrize.remove_parametrizations"
        )
