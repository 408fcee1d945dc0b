"""Synaptic flow: for each connection the sum, over all paths through it, of the products of strengths.

That is |dR/dw * w| for the path norm R with an input of ones (the score of SynFlow), from one pass of the real
semiring, at any depth: exponents are applied only at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.paths import devices
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.passes import Pass
from effsparse_cli.paths.real.arrays import NOTHING, RealArrays, Scaled
from effsparse_cli.paths.real.weights import RealWeights, one_batch
from effsparse_cli.paths.views import collect

Strengths = NDArray[Any]


def find_flow(graph: Graph, strengths: Mapping[str, Strengths], device: str = "cpu") -> dict[str, Strengths]:
    """Return one array per layer, in its shape, all on one scale with a maximum of about 1."""
    arrays = RealArrays(device, saturate=False)
    done = Pass(arrays, FlowWeights(RealWeights(strengths.__getitem__, arrays), arrays), graph)
    top = max((found.exponent for found in done.uses.values()), default=0)
    flow: dict[str, Strengths] = {}
    shapes = graph.weight_shapes
    for weight, found in done.uses.items():
        scaled = arrays.at(found, top) if found.exponent > NOTHING else found.data
        amounts = devices.fetch(scaled).reshape(-1)
        if weight.layer not in flow and weight.view.strides is None and weight.view.index is None:
            flow[weight.layer] = amounts
            continue
        into = flow.setdefault(weight.layer, np.zeros(strengths[weight.layer].size))
        collect(amounts, weight.view, shapes[weight], into, np.add)
    return {name: flow.get(name, np.zeros(array.size)).reshape(array.shape) for name, array in strengths.items()}


class FlowWeights:
    """Contracts as RealWeights does, but records amounts instead of whether there is a path."""

    def __init__(self, real: RealWeights, arrays: RealArrays) -> None:
        self._real = real
        self._arrays = arrays
        self.contract = real.contract
        self.contract_back = real.contract_back

    def meet(
        self, x: Flow[Scaled], y: Scaled, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Scaled:
        source, target = one_batch(x.live.data, op)[0], one_batch(y.data, op)[0]
        strength = self._real.strength(weight, shape)
        paths = self._real.convolution(op, source).to_weight(source, target, strength)
        return self._arrays.settle(paths * strength, x.live.exponent + y.exponent)

    def meet_everywhere(self, x: Flow[Scaled], y: Scaled, weight: Weight, shape: Shape) -> Scaled:
        amount = self._real.strength(weight, shape) * x.live.data * y.data
        return self._arrays.settle(amount, x.live.exponent + y.exponent)

    def merge(self, a: Scaled, b: Scaled) -> Scaled:
        return self._arrays.plus([a, b])
