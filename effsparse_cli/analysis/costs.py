"""What the active connections of a model cost: multiply-adds for the input of the graph, and bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Contract, Scan, Weight
from effsparse_cli.paths.edges import WeightUse


def count_multiply_adds(graph: Graph, uses: Mapping[Weight, WeightUse]) -> dict[str, int | None]:
    """Count for each layer, at each output position, the active connections that read the input there; padding is not
    counted. The count is None if some of the layer's weights are not used by a contraction: looked up in a table,
    mixed before use, inside an unknown operator, or in a loop of unknown length."""
    found: dict[str, int | None] = {name: None if layer.embedding else 0 for name, layer in graph.layers.items()}
    contracted: Counter[Weight] = Counter()
    for weight, op, batch, steps in _contractions(graph, 1):
        contracted[weight] += 1
        known = found.get(weight.layer)
        if known is None or steps is None or weight not in uses:
            found[weight.layer] = None
        else:
            found[weight.layer] = known + steps * batch * _count_taps(op, uses[weight])
    for name in {weight.layer for weight in _weights(graph) if weight not in contracted}:
        found[name] = None
    for mixed in graph.mixed_weights.values():
        found |= dict.fromkeys(mixed.sources)
    return {name: found[name] for name in graph.layers}


def _contractions(graph: Graph, steps: int | None) -> Iterator[tuple[Weight, Contract, int, int | None]]:
    """Yield each contraction with a weight, the size of its batch axes, and how often it runs (None: unknown)."""
    for node in graph.nodes:
        if isinstance(node.op, Scan):
            inside = None if node.op.steps is None or steps is None else steps * node.op.steps
            yield from _contractions(node.op.body, inside)
        elif isinstance(node.op, Contract) and isinstance(weight := graph.nodes[node.inputs[1]].op, Weight):
            batch = node.shape[: len(node.shape) - 1 - len(node.op.windows)]
            yield weight, node.op, math.prod(batch), steps


def _weights(graph: Graph) -> Iterator[Weight]:
    for node in graph.nodes:
        if isinstance(node.op, Weight):
            yield node.op
        elif isinstance(node.op, Scan):
            yield from _weights(node.op.body)


def _count_taps(op: Contract, use: WeightUse) -> int:
    """Return the sum over the active connections of the output positions at which their tap reads the input."""
    if not op.windows:
        return use.tally.active
    positions = reduce(np.multiply.outer, [(table >= 0).sum(axis=1) for table in op.windows])
    active = use.bools("active").sum(axis=(0, 1), dtype=np.int64)
    return int((active * positions.reshape(active.shape)).sum())
