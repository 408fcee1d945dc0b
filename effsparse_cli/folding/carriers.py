"""Find what repair can remove, from the graph alone: for each layer the active connections, the bias carriers, and the
positions of its operator's output that matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools, Contract, Shape, Weight
from effsparse_cli.paths import collect_edges
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.maps import BoolValue, to_array
from effsparse_cli.paths.boolean.weights import BitWeights
from effsparse_cli.paths.edges import WeightUse
from effsparse_cli.paths.mixed_weights import pack_weights
from effsparse_cli.paths.passes import Pass
from effsparse_cli.paths.views import arrange, covers_once, scatter


@dataclass(frozen=True, eq=False)
class OperatorOutput:
    """The output of one operator. `relevant` broadcasts to its shape; channels come before `rank` spatial axes."""

    shape: Shape
    relevant: Bools
    rank: int

    @property
    def dead(self) -> Bools:
        """Channels that matter at no position."""
        axis = len(self.shape) - self.rank - 1
        others = tuple(i for i in range(len(self.shape)) if i != axis)
        return np.broadcast_to(~self.relevant.any(axis=others), self.shape[axis])


@dataclass(frozen=True, eq=False)
class LayerActivity:
    """The connections of one layer, and all uses of it, lookups too; `output` if exactly one operator uses it."""

    layer: Layer
    kept: Bools
    active: Bools
    carrier: Bools
    uses: tuple[WeightUse, ...]
    output: OperatorOutput | None

    @property
    def by_channel(self) -> bool:
        """Whether every connection is in exactly one output channel, so that channels can be decided one by one."""
        return len(self.uses) == 1 and covers_once(self.uses[0].weight.view, self.uses[0].shape, self.kept.size)

    def carriers_in(self, channels: Bools) -> Bools:
        """Return the carriers in some output channels, in the layer's shape."""
        use = self.uses[0]
        arranged = arrange(self.carrier, use.weight.view, use.shape, zero=False)
        chosen = arranged & channels.reshape(-1, *(1,) * (len(use.shape) - 1))
        flat = np.zeros(self.carrier.size, bool)
        scatter(chosen, use.weight.view, use.shape, flat)
        return flat.reshape(self.carrier.shape)


class _RecordingWeights:
    """The weights of a boolean pass, which also record how relevant the output of each operator is."""

    def __init__(self, bits: BitWeights) -> None:
        self.contract, self.contract_back = bits.contract, bits.contract_back
        self.meet_everywhere, self.merge = bits.meet_everywhere, bits.merge
        self._meet = bits.meet
        self.outputs: dict[Weight, list[OperatorOutput]] = {}

    def meet(
        self, x: Flow[BoolValue], y: BoolValue, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> WeightUse:
        self.outputs.setdefault(weight, []).append(OperatorOutput(shapes[1], to_array(y), len(op.windows)))
        return self._meet(x, y, shapes, op, weight, shape)


def find_activity(graph: Graph) -> dict[str, LayerActivity]:
    """Return the activity of each layer by name."""
    weights = _RecordingWeights(pack_weights(graph))
    done: Pass[Any, WeightUse] = Pass(BOOLEAN, weights, graph)
    layers = {}
    for name, edges in collect_edges(graph, done).items():
        outputs = [output for use in edges.uses for output in weights.outputs.get(use.weight, ())]
        output = outputs[0] if len(outputs) == 1 and len(edges.uses) == 1 else None
        kept, active, carrier = (edges.mask(kind) for kind in ("kept", "active", "carrier"))
        layers[name] = LayerActivity(edges.layer, kept, active, carrier, tuple(edges.uses), output)
    return layers
