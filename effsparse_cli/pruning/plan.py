"""The plan for a pruning run and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.arguments import parse_number, parse_share
from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools

LayerGradients = Mapping[str, NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Gradients:
    """Gradients by layer, in its stored shape, computed over batches of data with the given masks applied.

    `of_loss` returns the gradient of the loss by every weight, removed ones included. `of_flow` returns the
    Hessian-gradient product Hg, which GraSP needs.
    """

    of_loss: Callable[[Mapping[str, Bools]], LayerGradients]
    of_flow: Callable[[Mapping[str, Bools]], LayerGradients]


@dataclass(frozen=True, kw_only=True)
class PrunePlan:
    """What to prune, how far, and by which ranking.

    `target` is the sparsity to reach: effective, or direct if `direct` is set. An empty `lsq` means the method's
    default quota, and `rounds` 0 its default number of rounds. `only` and `exclude` are patterns of layer names; layers
    left out are not changed but count in the totals. `from_masks` prunes what is kept now instead of all nonzero
    weights.
    """

    target: Fraction
    method: str = "magnitude"
    lsq: str = ""
    direct: bool = False
    seed: int = 0
    algorithm: str = "bottleneck"
    pattern: tuple[int, int] | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    from_masks: bool = False
    keep_inactive: bool = False
    allow_disconnected: bool = False
    erk_strict: bool = False
    count_embeddings: bool = False
    rounds: int = 0
    device: str = "cpu"
    gradients: Gradients | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """Masks of the pruned layers, in their stored shapes, and the counts over all layers that count.

    `wanted` is the number of connections that the target leaves (kept if `direct`, else active); `removed` is the
    number of inactive connections taken out of the masks, and `removed_carriers` how many of these were bias carriers.
    `threshold` is the lowest score kept, None if counts decided. `out_of_reach` means that one more step would leave
    nothing active; `cut` then names the layer where that step cuts the network (None if a shortcut bypasses every
    layer).
    """

    masks: Mapping[str, Bools] = field(repr=False)
    connections: int
    wanted: int
    kept: int
    active: int
    direct: bool = False
    removed: int = 0
    removed_carriers: int = 0
    threshold: float | None = None
    passes: int = 0
    out_of_reach: bool = False
    cut: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def direct_sparsity(self) -> float:
        return 1 - self.kept / self.connections

    @property
    def effective_sparsity(self) -> float:
        return 1 - self.active / self.connections

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, with one about bias carriers. It is left out for networks that are trained afterwards."""
        were = "was a bias carrier" if self.removed_carriers == 1 else "were bias carriers"
        carriers = f"{self.removed_carriers:,} of the removed inactive connections {were}"
        return (*self.notes, *([carriers] if self.removed_carriers else []))


def parse_target(sparsity: str | float | None, compression: str | float | None) -> Fraction:
    """Return the target sparsity exactly as written: 0.999 and 99.9% are 999/1000, a compression c is 1 - 1/c."""
    if sparsity is None and compression is None:
        raise UsageError("no target: set one, for example --target 0.99 or --compression 100")
    if sparsity is not None and compression is not None:
        raise UsageError("--target and --compression both set the target: use only one of them")
    if sparsity is not None:
        target = parse_share(sparsity, "--target")
        if target == 1:
            raise UsageError(f"--target {sparsity}: a sparsity must be less than 1, for example 0.99 or 99%")
        return target
    text = str(compression).strip().lower().removesuffix("x")
    factor = parse_number(text, f"--compression {compression}", "1000 or 1000x")
    if factor < 1:
        raise UsageError(f"--compression {compression}: a compression must be at least 1, for example 100 or 100x")
    return 1 - 1 / factor


def parse_pattern(text: str | None) -> tuple[int, int] | None:
    """Parse an N:M pattern such as "2:4"."""
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or not 1 <= int(parts[0]) <= int(parts[1]):
        raise UsageError(f"--pattern {text}: use N:M with 1 <= N <= M, for example 2:4")
    return int(parts[0]), int(parts[1])


def connections_left(target: Fraction, connections: int) -> int:
    """Return the smallest number of connections that does not exceed the target sparsity, but at least one."""
    return max(1, math.ceil((1 - target) * connections))
