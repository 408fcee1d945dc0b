"""Group layers by module: the first components of their names, as `effsparse report --depth` shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from effsparse_cli.analysis.results import Counts, LayerResult
from effsparse_cli.formatting import plural

COMPONENT = re.compile(r"[./]*[^./]+")
"""A component of a name, with the separator before it: `layer1.0.conv1` in torch, `/layer1/conv/weight` in ONNX."""


def group_layers(layers: Iterable[LayerResult], depth: int) -> list[LayerResult]:
    """Merge layers whose names start with the same `depth` components. Counts are summed; a layer that is alone in its
    group keeps its operator and shape."""
    groups: dict[str, list[LayerResult]] = {}
    for layer in layers:
        groups.setdefault(group_name(layer.name, depth), []).append(layer)
    return [_merge(name, members) for name, members in groups.items()]


def group_name(name: str, depth: int) -> str:
    """Return the first `depth` components of a name."""
    return "".join(COMPONENT.findall(name)[:depth]) or name


def name_depth(name: str) -> int:
    """Return the number of components of a name."""
    return len(COMPONENT.findall(name))


def _merge(name: str, members: list[LayerResult]) -> LayerResult:
    if len(members) == 1:
        return members[0]._replace(name=name)
    patterns = {layer.pattern for layer in members}
    return LayerResult(
        name=name,
        op=plural(len(members), "layer"),
        shape=(),
        counts=sum((layer.counts for layer in members), Counts()),
        neurons=sum(layer.neurons for layer in members),
        dead_neurons=sum(layer.dead_neurons for layer in members),
        pattern=patterns.pop() if len(patterns) == 1 else "",
        multiply_adds=sum_known([layer.multiply_adds for layer in members]),
        bytes=sum_known([layer.bytes for layer in members]),
        active_bytes=sum_known([layer.active_bytes for layer in members]),
    )


def sum_known(numbers: list[int | None]) -> int | None:
    """Return the sum, None if one is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
