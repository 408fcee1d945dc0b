"""The connections that have to be added so that a path runs through a layer: from a graph and the connections that may
be added, find the smallest number of additions, and all connections on paths with that many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools, Contract, Shape, Weight
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean.maps import BoolValue
from effsparse_cli.paths.boolean.weights import BitWeights
from effsparse_cli.paths.cost.arrays import CostArrays, Planes, Priced, each, pairs, tidy, union
from effsparse_cli.paths.edges import Edges, WeightUse
from effsparse_cli.paths.mixed_weights import pack_weights
from effsparse_cli.paths.passes import Pass

ByCost = tuple[WeightUse | None, ...]
"""At index k: the connections on a path with at most k + 1 additions, themselves included."""


@dataclass(frozen=True)
class Cheapest:
    """`cost` additions give the layer a path. `masks` has every offered connection that such a path can use."""

    cost: int
    masks: dict[str, Bools]


def find_cheapest(graph: Graph, offered: Mapping[str, Bools], layer: str, most: int) -> Cheapest | None:
    """Return None if a path through the layer needs more than `most` additions. Exact for simple paths; an upper bound
    if a path has to open a gate or uses a weight more than once."""
    nothing = {name: np.zeros(found.shape, bool) for name, found in graph.layers.items()}
    others = graph.with_masks(nothing | dict(offered))
    weights = CostWeights(pack_weights(graph), pack_weights(others), layer)
    uses = Pass(CostArrays(most), weights, graph).uses
    for k in range(most):
        edges = {name: Edges(others.layers[name]) for name in offered}
        for weight, by_cost in uses.items():
            use = by_cost[k]
            if use is not None and weight.layer in edges:
                edges[weight.layer].uses.append(use)
        masks = {name: found.mask("active") for name, found in edges.items()}
        if any(mask.any() for mask in masks.values()):
            return Cheapest(k + 1, masks)
    return None


class CostWeights:
    """A kept connection costs nothing, an offered one costs one."""

    def __init__(self, kept: BitWeights, offered: BitWeights, layer: str) -> None:
        self._kept = kept
        self._offered = offered
        self._layer = layer

    def contract(self, x: Priced, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Priced:
        return self._carry("contract", x, weight, x_shape, op, weight, shape)

    def contract_back(
        self, y: Priced, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Priced:
        return self._carry("contract_back", y, weight, y_shape, op, weight, shape, x_shape)

    def _carry(self, verb: str, a: Priced, weight: Weight, *args: Any) -> Priced:
        contract_kept, contract_offered = getattr(self._kept, verb), getattr(self._offered, verb)

        def carried(planes: Planes) -> Planes:
            kept = each(planes, lambda plane: contract_kept(plane, *args))
            added = (None, *each(planes[:-1], lambda plane: contract_offered(plane, *args)))
            return tidy([union(both) for both in zip(kept, added, strict=True)])

        free = carried(a.free)
        here = weight.layer == self._layer and not a.side
        return Priced(free, free if here else carried(a.through), a.side)

    def meet(
        self, x: Flow[Priced], y: Priced, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> ByCost:
        return self._found(x.live, y, weight, lambda a, b: self._offered.meet(Flow(a, a), b, shapes, op, weight, shape))

    def meet_everywhere(self, x: Flow[Priced], y: Priced, weight: Weight, shape: Shape) -> ByCost:
        return self._found(x.live, y, weight, lambda a, b: self._offered.meet_everywhere(Flow(a, a), b, weight, shape))

    def _found(self, x: Priced, y: Priced, weight: Weight, meet: Callable[[BoolValue, BoolValue], WeightUse]) -> ByCost:
        here = weight.layer == self._layer
        by_cost: list[WeightUse | None] = []
        for k in range(len(x.free)):
            joined = (
                [*pairs(x.free, y.free, k)] if here else [*pairs(x.through, y.free, k), *pairs(x.free, y.through, k)]
            )
            use: WeightUse | None = None
            for a, b in joined:
                found = meet(a, b)
                use = found if use is None else use.merge(found)
            by_cost.append(use)
        return tuple(by_cost)

    def merge(self, a: ByCost, b: ByCost) -> ByCost:
        return tuple(
            one.merge(other) if one is not None and other is not None else one or other
            for one, other in zip(a, b, strict=True)
        )
