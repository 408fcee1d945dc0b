"""Stored weights that are mixed before use: turn the result of a pass for a mixed weight into results for the stored
weights. A stored weight is active as soon as any element that is computed from it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from effsparse_cli.graph.graph import Graph, Layer, MixedWeight
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.kernel.bits import pack
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.maps import BoolValue, to_array
from effsparse_cli.paths.boolean.packing import PackedWeights
from effsparse_cli.paths.boolean.weights import BitWeights, SplitWeights
from effsparse_cli.paths.edges import Edges, WeightUse, build_use
from effsparse_cli.paths.passes import Pass
from effsparse_cli.paths.scans import Values, flow_of


def current_operands(graph: Graph) -> dict[str, Layer]:
    """Return the weights as operators use them. A stale mixed weight keeps what its layers keep now."""
    stale = {
        name: _possible(mixed_weight, graph.layers)
        for name, mixed_weight in graph.mixed_weights.items()
        if mixed_weight.stale
    }
    return {**graph.operands, **stale}


def pack_weights(graph: Graph) -> BitWeights:
    """Read the weights of a graph for a boolean pass."""
    return BitWeights(PackedWeights(graph.weight_shapes, current_operands(graph)))


def find_mixed_uses(graph: Graph) -> dict[str, list[WeightUse]]:
    """Return the uses of each layer that is mixed before use, one per mixed weight.

    Paths run over the elements of a mixed weight that are not zero now. They meet at all elements that could be other
    than zero, because a change of a stored weight changes those too.
    """
    if not graph.mixed_weights:
        return {}
    possible = {name: _possible(mixed_weight, graph.layers) for name, mixed_weight in graph.mixed_weights.items()}
    every = PackedWeights(graph.weight_shapes, {**current_operands(graph), **possible})
    weights = SplitWeights(pack_weights(graph), BitWeights(every))
    uses: dict[str, list[WeightUse]] = {}
    edges = {name: Edges(layer) for name, layer in possible.items()}
    for weight, use in Pass(BOOLEAN, weights, graph).uses.items():
        if weight.layer in edges:
            edges[weight.layer].uses.append(use)
    for name, mixed_weight in graph.mixed_weights.items():
        for layer, use in _stored_uses(mixed_weight, edges[name], graph.layers):
            uses.setdefault(layer, []).append(use)
    return uses


def fills_zeros(graph: Graph, mixed_weight: MixedWeight) -> bool:
    """Whether the mixed weight has more nonzero elements than the stored weights, so that their zeros prune nothing."""
    layer = graph.layers[mixed_weight.sources[0]]
    if np.prod(layer.shape) != np.prod(mixed_weight.layer.shape):
        return False
    possible = _possible(mixed_weight, graph.layers).kept()
    return int(np.count_nonzero(possible)) > int(np.count_nonzero(layer.kept()))


def _stored_uses(mixed_weight: MixedWeight, edges: Edges, layers: Mapping[str, Layer]) -> list[tuple[str, WeightUse]]:
    """Find for each stored weight whether an element that is computed from it is active, has a source, and so on."""
    pass_, values = _forward(mixed_weight, layers)
    names, shape = mixed_weight.graph.input_shapes, mixed_weight.layer.shape
    found: dict[str, dict[str, Bools]] = {name: {} for name in names}
    for kind in ("active", "source", "target", "carrier"):
        relevant = pass_.backward(mixed_weight.graph, values, [BOOLEAN.lift(edges.mask(kind), shape)])
        for name, helps in zip(names, relevant, strict=True):
            found[name][kind] = _bools(helps, names[name])
    return [(name, _use(layers[name], found[name])) for name in mixed_weight.sources]


def _use(layer: Layer, found: Mapping[str, Bools]) -> WeightUse:
    """Build a use of the whole stored tensor, row by row."""
    shape = layer.shape[0], int(np.prod(layer.shape[1:]))
    kept, active, source, target, carrier = (
        pack(np.ascontiguousarray(bits).reshape(1, *shape))
        for bits in (layer.kept(), *(found[kind] for kind in ("active", "source", "target", "carrier")))
    )
    return build_use(layer.name, shape, kept, active=kept & active, carrier=kept & carrier, ends=(source, target))


def _possible(mixed_weight: MixedWeight, layers: Mapping[str, Layer]) -> Layer:
    """Return the mixed weight with every element kept that the kept stored weights can make other than zero."""

    def kept() -> Bools:
        _, values = _forward(mixed_weight, layers)
        return _bools(flow_of(values[mixed_weight.graph.outputs[0]]).nonzero, mixed_weight.layer.shape)

    return replace(mixed_weight.layer, kept=kept)


def _forward(
    mixed_weight: MixedWeight, layers: Mapping[str, Layer]
) -> tuple[Pass[BoolValue, WeightUse], Values[BoolValue]]:
    graph = mixed_weight.graph
    pass_ = Pass(BOOLEAN, BitWeights(PackedWeights({}, {})), graph)
    kept = [BOOLEAN.lift(np.asarray(layers[name].kept()), shape) for name, shape in graph.input_shapes.items()]
    return pass_, pass_.forward(graph, [Flow(value, value) for value in kept])


def _bools(value: BoolValue, shape: tuple[int, ...]) -> Bools:
    return np.broadcast_to(to_array(value), shape)
