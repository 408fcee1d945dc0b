"""Input sizes that a model leaves open, and how to ask for larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True, eq=False)
class OpenDimensions:
    """The open dimensions by name, except batch dimensions, with the sizes assumed for them.

    `shapes` returns the shapes of all inputs with these sizes multiplied by a factor. It raises UsageError if the
    model declares that it does not accept such a size.
    """

    sizes: Mapping[str, int]
    shapes: Callable[[int], Mapping[str, Shape]]
