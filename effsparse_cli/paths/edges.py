"""What a pass found out about connections: per use of a weight as packed bits, and per layer as counts or masks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, Weight
from effsparse_cli.paths.bits import Words, count, unpack
from effsparse_cli.paths.views import covers_once, scatter

REASONS = ("no_input", "no_output", "both", "padding")


@dataclass(frozen=True, eq=False)
class Use:
    """One operator's use of a weight, [groups, rows, words] each, broadcastable: which connections are kept,
    active, have a live source or a relevant target somewhere, or carry a constant to a relevant target."""

    weight: Weight
    shape: Shape
    kept: Words
    active: Words
    source: Words
    target: Words
    carrier: Words

    def merge(self, other: Use) -> Use:
        """The same operator at another step."""
        return Use(
            self.weight,
            self.shape,
            self.kept,
            self.active | other.active,
            self.source | other.source,
            self.target | other.target,
            self.carrier | other.carrier,
        )

    def words(self, kind: str) -> Words:
        dead = self.kept & ~self.active
        match kind:
            case "kept":
                return self.kept
            case "active":
                return self.active
            case "no_input":
                return dead & ~self.source & self.target
            case "no_output":
                return dead & self.source & ~self.target
            case "both":
                return dead & ~self.source & ~self.target
            case "padding":
                return dead & self.source & self.target
            case _:
                return dead & self.carrier

    @property
    def columns(self) -> int:
        return math.prod(self.shape[1:])


@dataclass(frozen=True, eq=False)
class Edges:
    """All that is known of one layer's connections. A weight with several uses counts once: it is active,
    or has a live source, or a relevant target, if any of its uses does."""

    layer: Layer
    uses: list[Use] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """How many connections are "kept", "active", one of REASONS, or "carrier"."""
        if self._single is not None:
            return count(self._single.words(kind))
        return int(np.count_nonzero(self.mask(kind)))

    def mask(self, kind: str) -> Bools:
        """The same as a boolean array of the layer's shape."""
        if self._single is not None:
            return self._flat(self._single.words(kind), self._single).reshape(self.layer.shape)
        if kind in ("kept", "active"):
            return self._merged[kind].reshape(self.layer.shape)
        dead = self._merged["kept"] & ~self._merged["active"]
        source, target = self._merged["source"], self._merged["target"]
        found = {
            "no_input": ~source & target,
            "no_output": source & ~target,
            "both": ~source & ~target,
            "padding": source & target,
            "carrier": self._merged["carrier"],
        }[kind]
        return (dead & found).reshape(self.layer.shape)

    @property
    def neurons(self) -> tuple[int, int]:
        """Outputs of the operators that use this weight, and those that no active connection reaches."""
        total = dead = 0
        for use in self.uses:
            total += use.shape[0]
            dead += int(np.count_nonzero(~use.active.any(axis=-1)))
        return total, dead

    @cached_property
    def _single(self) -> Use | None:
        size = math.prod(self.layer.shape)
        if len(self.uses) == 1 and covers_once(self.uses[0].weight.view, self.uses[0].shape, size):
            return self.uses[0]
        return None

    @cached_property
    def _merged(self) -> dict[str, Bools]:
        """The union over uses in the layer's own flat order. What no use covers is kept and reaches nothing."""
        merged = {
            kind: np.zeros(math.prod(self.layer.shape), bool) for kind in ("active", "source", "target", "carrier")
        }
        for use in self.uses:
            for kind, found in merged.items():
                words = getattr(use, kind) & use.kept
                scatter(self._bools(words, use), use.weight.view, use.shape, found)
        return {"kept": self.layer.kept().reshape(-1), **merged}

    def _flat(self, words: Words, use: Use) -> Bools:
        flat = np.zeros(math.prod(self.layer.shape), bool)
        scatter(self._bools(words, use), use.weight.view, use.shape, flat)
        return flat

    @staticmethod
    def _bools(words: Words, use: Use) -> Bools:
        return unpack(np.broadcast_to(words, use.kept.shape), use.columns).reshape(use.shape)
