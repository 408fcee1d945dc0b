"""What the three ways to mend a mask give back. Each takes a graph, a plan and, where there are any, dense weights:

    revive(graph, plan, dense)       repair/revive.py     --target T: effective sparsity T, from either side
    keep_budget(graph, plan, dense)  repair/budget.py     --budget-neutral: as many kept as before, all of them active
    reconnect(graph, plan, dense)    repair/reconnect.py  --reconnect: collapsed layers restored, as little as possible

`plan` is prune's own Plan: target (budget and reconnect do not look at it), method (what ranks pruned connections),
lsq ("" is global here), seed, only, exclude, count_embeddings, keep_inactive. `dense` has weights by layer name, in
the layer's stored shape (for example layer.values() of the same model before it was pruned); None: what stands behind
the masks of the file itself. All three return Revived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.plan import Pruned

Dense = Mapping[str, NDArray[Any]]
DENSE, FILE, NONE = "dense", "file", "none"


@dataclass(frozen=True)
class Revived:
    """`masks` by layer that took part: what is kept now. `revived` of the same layers: kept now and not before.

    `values` says where the values of revived connections come from: DENSE (the weights that were given), FILE (they
    stand behind the file's own masks) or NONE: nothing knows them, so only masks can be written (`valueless` counts
    them). `wanted` is the number of active connections asked for, None where none was. `added` is the number of
    revived connections, `removed` that of connections that were kept before and are not now, `kept` and `active` are
    those of all layers that count. `out_of_reach` and `cut` are prune's own, for a network that was too dense.
    `left` names collapsed layers that stay so, which only reconnect leaves.
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
        return sum(int(np.count_nonzero(mask)) for mask in self.revived.values())

    @property
    def valueless(self) -> int:
        """Revived connections that have no value but zero: a file of weights cannot hold them."""
        return self.added if self.values == NONE else 0


def revived_of(graph: Graph, pruned: Pruned, values: str) -> Revived:
    """What pruning's own record says of a graph that may have had other connections kept before."""
    before = {name: graph.layers[name].kept() for name in pruned.masks}
    revived = {name: mask & ~before[name] for name, mask in pruned.masks.items()}
    removed = sum(int(np.count_nonzero(before[name] & ~mask)) for name, mask in pruned.masks.items())
    return Revived(
        pruned.masks,
        revived,
        values,
        pruned.connections,
        pruned.kept,
        pruned.active,
        pruned.wanted,
        removed,
        pruned.out_of_reach,
        pruned.cut,
        notes=pruned.notes,
    )


def weights_of(graph: Graph, revived: Revived, dense: Dense | None) -> dict[str, NDArray[Any]]:
    """The numbers to write, by layer in which something came back: its own, and dense ones where it was revived.
    Without dense weights, or values behind the file's masks, there is nothing to write."""
    found = {}
    for name, mask in revived.revived.items():
        read = graph.layers[name].values
        if revived.values == NONE or read is None or not mask.any():
            continue
        own = np.asarray(read()).reshape(mask.shape)
        found[name] = own if dense is None else np.where(mask, dense[name], own).astype(own.dtype)
    return found
