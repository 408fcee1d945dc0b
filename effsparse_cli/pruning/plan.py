"""What a user asks of pruning, and what comes of it: plain data, in and out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools

Slopes = Mapping[str, NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Gradients:
    """What data tells of a model: by layer, in its stored shape, with the masks that are given applied.

    `of_loss` is the gradient by every weight, removed ones included; `of_flow` the gradient's own change along
    itself (Hg), which GraSP needs.
    """

    of_loss: Callable[[Mapping[str, Bools]], Slopes]
    of_flow: Callable[[Mapping[str, Bools]], Slopes]


@dataclass(frozen=True)
class Plan:
    """`target` is the sparsity wanted, effective unless `direct`. `lsq` "" is the method's own default.

    `only` and `exclude` are patterns of layer names; layers left out keep what they have and stay in the
    totals. `from_masks` starts at what is kept now. `rounds` 0 is the method's own number.
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


@dataclass(frozen=True)
class Pruned:
    """Masks by layer that took part, in its shape. The numbers are those of all layers that count: `wanted` (kept
    where `direct`, otherwise active), `kept` and `active` of the result, `removed` the inactive ones taken out of
    the masks. `threshold` is None where counts decided. `out_of_reach`: one step more would leave nothing active,
    and `cut` names the layer where that step cuts the network (None where a shortcut still passes)."""

    masks: Mapping[str, Bools] = field(repr=False)
    connections: int
    wanted: int
    kept: int
    active: int
    direct: bool = False
    removed: int = 0
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


def parse_target(sparsity: str | None, compression: str | None) -> Fraction:
    """Exactly as written: 0.999 is 999/1000. A compression c is a sparsity of 1 - 1/c."""
    if (sparsity is None) == (compression is None):
        raise UsageError("say how far to prune: --target 0.99, or --compression 100, one of the two")
    if sparsity is not None:
        target = _number(sparsity, "--target")
        if not 0 <= target < 1:
            raise UsageError(f"--target {sparsity}: a target sparsity is from 0 to below 1, for example 0.99")
        return target
    factor = _number(str(compression), "--compression")
    if factor < 1:
        raise UsageError(f"--compression {compression}: a compression is 1 or more, for example 100")
    return 1 - 1 / factor


def parse_pattern(text: str | None) -> tuple[int, int] | None:
    """ "2:4": of every four inputs in a row at most two stay."""
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or not 1 <= int(parts[0]) <= int(parts[1]):
        raise UsageError(f"--pattern {text}: write N:M with 1 <= N <= M, for example 2:4")
    return int(parts[0]), int(parts[1])


def wanted(target: Fraction, connections: int) -> int:
    """The fewest connections that do not exceed the target; one at least, since none is disconnected."""
    return max(1, math.ceil((1 - target) * connections))


def _number(text: str, option: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{option} {text}: this is no number") from None
