"""Witness 1: classify every connection of a graph by brute force.

A path runs from an input scalar to an output scalar over terms whose other factors are all non-zero. A connection is
active if at some position its source is on such a path from an input and its target on one to an output. Pure Python,
and no code shared with `effsparse_cli.paths`.
"""

from __future__ import annotations

import math

from effsparse_cli.graph.graph import Graph
from tests.witnesses.expansion import LIVE, ZERO, Element, Expansion, Scalar, Use, expand_graph, flatten

KINDS = ("kept", "active", "no_input", "no_output", "both", "padding", "carrier")
Fates = dict[str, dict[str, list[bool]]]
"""Layer -> kind -> one flag per element, row-major."""


def oracle(graph: Graph) -> Fates:
    found = Expansion({name: flatten(layer.kept()) for name, layer in graph.layers.items()})
    outputs = expand_graph(found, graph, None)
    walk_forward(found.scalars)
    walk_backward([scalar for value in outputs for scalar in value.scalars])
    uses: dict[Element, list[Use]] = {}
    for use in found.uses:
        uses.setdefault(use.element, []).append(use)
    fates: Fates = {}
    for name, layer in graph.layers.items():
        elements = [(name, e) for e in range(math.prod(layer.shape))]
        answers = [fate(found, element, uses.get(element, [])) for element in elements]
        fates[name] = {kind: [kind in answer for answer in answers] for kind in KINDS}
    return fates


def fate(found: Expansion, element: Element, uses: list[Use]) -> set[str]:
    """Return the kinds of one element of a layer."""
    layer, position = element
    if not found.kept[layer][position]:
        return set()
    if any(use.source.live and use.target.relevant for use in uses):
        return {"kept", "active"}
    fed = any(scalar.live for channel in found.sources.get(element, []) for scalar in channel)
    read = any(scalar.relevant for channel in found.targets.get(element, []) for scalar in channel)
    reason = {(True, True): "padding", (True, False): "no_output", (False, True): "no_input", (False, False): "both"}
    carries = any(use.source.nonzero and use.target.relevant for use in uses)
    return {"kept", reason[fed, read], *(["carrier"] if carries else [])}


def walk_forward(scalars: list[Scalar]) -> None:
    """Mark what can be non-zero, then what can depend on an input. Both sets only grow, so each scalar notifies its
    readers once, and cycles of a loop do no harm."""
    readers: dict[Scalar, list[tuple[Scalar, tuple[Scalar, ...]]]] = {}
    for scalar in scalars:
        for term in scalar.terms:
            for factor in term:
                readers.setdefault(factor, []).append((scalar, term))
    todo = [scalar for scalar in scalars if scalar.base != ZERO]
    while todo:
        scalar = todo.pop()
        if not scalar.nonzero:
            scalar.nonzero = True
            todo += [s for s, term in readers.get(scalar, []) if all(f.nonzero for f in term)]
    todo = [scalar for scalar in scalars if scalar.base == LIVE]
    while todo:
        scalar = todo.pop()
        if not scalar.live:
            scalar.live = True
            todo += [s for s, term in readers.get(scalar, []) if all(f.nonzero for f in term)]


def walk_backward(outputs: list[Scalar]) -> None:
    """Mark what reaches an output: a factor does if its term's scalar does and every other factor is non-zero."""
    todo = list(outputs)
    while todo:
        scalar = todo.pop()
        if scalar.relevant:
            continue
        scalar.relevant = True
        for term in scalar.terms:
            for k, factor in enumerate(term):
                if all(other.nonzero for other in term[:k] + term[k + 1 :]):
                    todo.append(factor)
