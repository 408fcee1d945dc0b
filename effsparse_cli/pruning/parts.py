"""Which layers count, which of them take part in pruning, and which of their connections can be kept at all."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from effsparse_cli.errors import NothingToMeasureError, UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.plan import Plan


@dataclass(frozen=True)
class Parts:
    """Names of layers in execution order: `counted` make up the totals, `pruned` are those that take part."""

    counted: tuple[str, ...]
    pruned: tuple[str, ...]
    connections: int


def find_parts(graph: Graph, plan: Plan) -> Parts:
    counted = tuple(name for name, layer in graph.layers.items() if plan.count_embeddings or not layer.embedding)
    if not counted:
        raise NothingToMeasureError(
            "there is nothing to prune: no operator multiplies by a stored weight that counts; "
            "--count-embeddings counts embedding tables"
        )
    check_patterns(counted, plan.only, "--only")
    check_patterns(counted, plan.exclude, "--exclude")
    pruned = tuple(
        name for name in counted if (not plan.only or matches(name, plan.only)) and not matches(name, plan.exclude)
    )
    if not pruned:
        raise UsageError("--only and --exclude together leave no layer to prune")
    _check_mixed(graph, pruned)
    return Parts(counted, pruned, sum(math.prod(graph.layers[name].shape) for name in counted))


def _check_mixed(graph: Graph, pruned: Sequence[str]) -> None:
    """A weight that is mixed before use cannot be pruned by removing stored numbers."""
    sources = {name for mixed_weight in graph.mixed_weights.values() for name in mixed_weight.sources}
    mixed = [name for name in pruned if name in sources]
    if mixed:
        named = ", ".join(mixed[:5]) + (f" and {len(mixed) - 5} more" if len(mixed) > 5 else "")
        raise UsageError(
            f"{named}: these weights are mixed before use (weight standardization, weight or spectral norm, a product "
            "of weights), so that removing a stored weight changes others instead of removing a connection. Leave them "
            "out with --exclude, or fold the computation into plain weights first, for example with "
            "torch.nn.utils.parametrize.remove_parametrizations"
        )


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_patterns(names: Sequence[str], patterns: Sequence[str], option: str) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = difflib.get_close_matches(pattern.strip("*"), names, n=3, cutoff=0.3) or list(names[:3])
            raise UsageError(
                f"{option} {pattern}: no layer's name matches. The closest are {', '.join(close)}. A pattern matches "
                "the whole name: * stands for anything, ? for one character"
            )
