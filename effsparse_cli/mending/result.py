"""The result of mending, and the weights to write for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.plan import PruneResult

DenseWeights = Mapping[str, NDArray[Any]]
DENSE, FILE, NONE = "dense", "file", "none"


@dataclass(frozen=True, kw_only=True)
class MendResult:
    """Masks of the layers in scope, and the counts over all layers that count.

    `revived` marks connections that are kept now but were not before. `values` says where their values come from: DENSE
    (the dense weights), FILE (masked values in the file) or NONE (unknown: only masks can be written). `wanted` is
    the number of active connections to reach, None if there is no such number. `removed` is the number of connections
    kept before but not now. `out_of_reach` and `cut` are those of PruneResult. `left` names layers that are still
    collapsed (reconnect only).
    """

    masks: Mapping[str, Bools] = field(repr=False)
    revived: Mapping[str, Bools] = field(repr=False)
    values: str
    connections: int
    kept: int
    active: int
    wanted: int | None = None
    removed: int = 0
    out_of_reach: bool = False
    cut: str | None = None
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """The number of revived connections."""
        return sum(int(np.count_nonzero(mask)) for mask in self.revived.values())

    @property
    def valueless(self) -> int:
        """The number of revived connections without a value: a file of weights cannot represent them."""
        return self.added if self.values == NONE else 0


def to_mend_result(graph: Graph, pruned: PruneResult, values: str) -> MendResult:
    """Compare the result of pruning with what `graph` keeps."""
    before = {name: graph.layers[name].kept() for name in pruned.masks}
    return MendResult(
        masks=pruned.masks,
        revived={name: mask & ~before[name] for name, mask in pruned.masks.items()},
        values=values,
        connections=pruned.connections,
        kept=pruned.kept,
        active=pruned.active,
        wanted=pruned.wanted,
        removed=sum(int(np.count_nonzero(before[name] & ~mask)) for name, mask in pruned.masks.items()),
        out_of_reach=pruned.out_of_reach,
        cut=pruned.cut,
        notes=pruned.all_notes,
    )


def find_new_weights(graph: Graph, result: MendResult, dense: DenseWeights | None) -> dict[str, NDArray[Any]]:
    """Return the weights to write for layers with revived connections: dense values where revived, their own elsewhere.

    Empty if revived connections have no values.
    """
    weights = {}
    for name, mask in result.revived.items():
        read = graph.layers[name].values
        if result.values == NONE or read is None or not mask.any():
            continue
        own = np.asarray(read()).reshape(mask.shape)
        weights[name] = own if dense is None else np.where(mask, dense[name], own).astype(own.dtype)
    return weights
