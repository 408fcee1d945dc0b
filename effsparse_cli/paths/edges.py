"""What a pass found out about connections: per use of a weight as packed bits, and per layer as counts or masks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, View, Weight
from effsparse_cli.paths.bits import Words, count, pack, unpack
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
        return count((self._single or self._merged).words(kind))

    def mask(self, kind: str) -> Bools:
        """The same as a boolean array of the layer's shape."""
        if self._single is not None:
            return self._flat(self._single.words(kind), self._single).reshape(self.layer.shape)
        return unpack(self._merged.words(kind), math.prod(self.layer.shape)).reshape(self.layer.shape)

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
        """A use that tells all: the only one, or one in which everything that is kept is active."""
        size = math.prod(self.layer.shape)
        whole = [use for use in self.uses if covers_once(use.weight.view, use.shape, size)]
        telling = whole if len(self.uses) == 1 else [use for use in whole if use.active is use.kept]
        return telling[0] if telling else None

    @cached_property
    def _merged(self) -> Use:
        """The union over uses in the layer's own flat order. What no use covers is kept and reaches nothing."""

        def union(kind: str) -> Words:
            found = np.zeros(math.prod(self.layer.shape), bool)
            for use in self.uses:
                scatter(self._bools(getattr(use, kind) & use.kept, use), use.weight.view, use.shape, found)
            return pack(found)

        kept = pack(self.layer.kept().reshape(-1))
        shape = (1, math.prod(self.layer.shape))
        return Use(Weight(self.layer.name, View()), shape, kept, *map(union, ("active", "source", "target", "carrier")))

    def _flat(self, words: Words, use: Use) -> Bools:
        flat = np.zeros(math.prod(self.layer.shape), bool)
        scatter(self._bools(words, use), use.weight.view, use.shape, flat)
        return flat

    @staticmethod
    def _bools(words: Words, use: Use) -> Bools:
        return unpack(np.broadcast_to(words, use.kept.shape), use.columns).reshape(use.shape)
