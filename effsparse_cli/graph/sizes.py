"""Sizes that a model leaves open: what was assumed for them, and how to ask for larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True, eq=False)
class OpenSizes:
    """The open dimensions by name, batches aside, with the sizes that were assumed for them. `shapes` gives the shapes
    of all inputs with these sizes multiplied by a factor, and raises UsageError if the model says that it accepts no
    such size."""

    sizes: Mapping[str, int]
    shapes: Callable[[int], Mapping[str, Shape]]
