"""What a user may say about reading a model: shapes, dimensions, outputs and whether its code may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True)
class LoadOptions:
    """`input_shapes` by input name ("" is the first input), `dims` by symbolic dimension, `outputs` by name or
    position (none: all). `trust` lets the code in a pickle run. `norms_cut` False is the paper's reading: a
    zero scale of a norm does not cut its channel."""

    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    trust: bool = False
    norms_cut: bool = True
