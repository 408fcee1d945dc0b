"""What the graph says about one round of repair: a graph enters; which connections of each layer go, which carry a
constant, and which positions of its operator's output matter leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools, Contract, Shape, Weight
from effsparse_cli.paths import edges_of
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean import BitWeights
from effsparse_cli.paths.boolean_arrays import BOOLEAN
from effsparse_cli.paths.edges import Use
from effsparse_cli.paths.maps import Value, dense
from effsparse_cli.paths.mixing import bit_weights
from effsparse_cli.paths.sweep import Sweep
from effsparse_cli.paths.views import arrange, covers_once, scatter


@dataclass(frozen=True, eq=False)
class Target:
    """The output of one operator: `relevant` broadcasts to its shape, channels stand before `rank` spatial axes."""

    shape: Shape
    relevant: Bools
    rank: int

    @property
    def dead(self) -> Bools:
        """Channels of which no position matters."""
        axis = len(self.shape) - self.rank - 1
        others = tuple(i for i in range(len(self.shape)) if i != axis)
        return np.broadcast_to(~self.relevant.any(axis=others), self.shape[axis])


@dataclass(frozen=True, eq=False)
class Facts:
    """One layer: what is active, and which inactive connections carry a constant. `target` is known where one
    operator uses the weight; `uses` counts operators, lookups in a table among them."""

    layer: Layer
    kept: Bools
    active: Bools
    carrier: Bools
    uses: tuple[Use, ...]
    target: Target | None

    @property
    def by_row(self) -> bool:
        """Is every connection in exactly one output channel, so that channels can be decided one by one?"""
        return len(self.uses) == 1 and covers_once(self.uses[0].weight.view, self.uses[0].shape, self.kept.size)

    def rows(self, chosen: Bools) -> Bools:
        """The carriers in the chosen output channels, in the layer's shape."""
        use = self.uses[0]
        arranged = arrange(self.carrier, use.weight.view, use.shape, zero=False)
        found = arranged & chosen.reshape(-1, *(1,) * (len(use.shape) - 1))
        flat = np.zeros(self.carrier.size, bool)
        scatter(found, use.weight.view, use.shape, flat)
        return flat.reshape(self.carrier.shape)


class _Listener:
    """The weights of a boolean pass, which hears on the way how relevant each operator's output is."""

    def __init__(self, bits: BitWeights) -> None:
        self.contract, self.contract_back = bits.contract, bits.contract_back
        self.meet_everywhere, self.merge = bits.meet_everywhere, bits.merge
        self._meet = bits.meet
        self.targets: dict[Weight, list[Target]] = {}

    def meet(
        self, x: Flow[Value], y: Value, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Use:
        self.targets.setdefault(weight, []).append(Target(shapes[1], dense(y), len(op.windows)))
        return self._meet(x, y, shapes, op, weight, shape)


def find_facts(graph: Graph) -> dict[str, Facts]:
    listener = _Listener(bit_weights(graph))
    done: Sweep[Any, Use] = Sweep(BOOLEAN, listener, graph)
    found = {}
    for name, edges in edges_of(graph, done).items():
        heard = [target for use in edges.uses for target in listener.targets.get(use.weight, ())]
        target = heard[0] if len(heard) == 1 and len(edges.uses) == 1 else None
        kept, active, carrier = (edges.mask(kind) for kind in ("kept", "active", "carrier"))
        found[name] = Facts(edges.layer, kept, active, carrier, tuple(edges.uses), target)
    return found
