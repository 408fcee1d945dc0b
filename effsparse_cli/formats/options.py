"""Options for reading a model: input shapes, outputs, architecture, masks, and whether code in the file may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How to read a model.

    `input_shapes` maps input names to shapes ("" is the first input), `dims` maps symbolic dimensions to sizes, and
    `outputs` selects outputs by name or position (empty: all). `trust` allows code in a pickle to run. `norms_cut` is
    False for the paper's convention, in which a zero scale of a norm does not cut its channel.

    `arch` names the model that a checkpoint's tensors belong to: a built-in model, `hf`, or package.module:factory,
    called with `arch_args`. `key` is the location of the tensors in a checkpoint, for example `ema.model`. `masks` is a
    mask file, which decides what is kept. With `zeros_are_pruned` a zero weight is pruned even if its mask keeps it;
    weights of magnitude up to `zero_tol` count as zero.
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
