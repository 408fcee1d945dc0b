"""What a user may say about reading a model: shapes, dimensions, outputs, the architecture and masks of a file that
has none of its own, and whether its code may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True)
class LoadOptions:
    """`input_shapes` by input name ("" is the first input), `dims` by symbolic dimension, `outputs` by name or
    position (none: all). `trust` lets the code in a pickle run. `norms_cut` False is the paper's reading: a
    zero scale of a norm does not cut its channel.

    `arch` says what the tensors of a file belong to: a built-in model's name, `hf`, or package.module:factory, which
    is called with `arch_args` (as written). `key` is where in a checkpoint the tensors are (`ema.model`). `masks` is a
    file of masks, which decide what is kept; `zeros_are_pruned` leaves out zeros behind a mask too, `zero_tol`
    everything that is not larger.
    """

    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    trust: bool = False
    norms_cut: bool = True
    arch: str = ""
    arch_args: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    masks: Path | None = None
    zeros_are_pruned: bool = False
    zero_tol: float = 0.0
