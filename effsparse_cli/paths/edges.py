"""The result of a pass for connections: packed bits for each use of a weight, counts and masks for each layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, View, Weight
from effsparse_cli.kernel.bits import Words, pack, unpack
from effsparse_cli.kernel.numpy_loops import Tally
from effsparse_cli.paths.views import covers_once, scatter


@dataclass(frozen=True, eq=False)
class Ends:
    """Which connections have a source with paths to it, which a target with paths from it, and which have both but
    never meet. None means all or, for `missed`, none. Words broadcast to those of the weight, [groups, rows, words].
    `tally` has the counts if the kernel has made them already."""

    source: Words | None = None
    target: Words | None = None
    missed: Words | None = None
    tally: Tally | None = None

    @property
    def covers_all(self) -> bool:
        return self.source is None and self.target is None and self.missed is None

    def select(self, kept: Words) -> Words:
        """Return the kept connections that join a source to a target."""
        for ends in (self.source, self.target):
            kept = kept if ends is None else kept & ends
        return kept if self.missed is None else kept & ~self.missed

    def count(self, kept: Words) -> Tally:
        groups, rows, width = kept.shape
        source = _spread(self.source, kept, (groups, 1, width))
        target = _spread(self.target, kept, (groups, rows, 1))
        return kernel.tally(kept, groups, width, source, target, self.missed)

    def merge(self, other: Ends, kept: Words) -> Ends:
        """Return the union with the ends of the same weight at another step."""
        if self.covers_all or other.covers_all:
            return Ends()
        source = None if self.source is None or other.source is None else self.source | other.source
        target = None if self.target is None or other.target is None else self.target | other.target
        return build_ends(kept, self.select(kept) | other.select(kept), source, target)


def build_ends(kept: Words, joined: Words, source: Words | None, target: Words | None) -> Ends:
    """Build ends from the connections that are joined."""
    missed = Ends(source, target).select(kept) & ~joined
    return Ends(source, target, missed if missed.any() else None)


def _spread(words: Words | None, kept: Words, short: tuple[int, int, int]) -> Words | None:
    """Broadcast words to the shape of the weight, unless they have the short one."""
    return words if words is None or words.shape == short else np.ascontiguousarray(np.broadcast_to(words, kept.shape))


class ConnectionCounts(NamedTuple):
    """Numbers of connections: kept; active; inactive for one of four reasons; and inactive but a bias carrier."""

    kept: int
    active: int
    no_input: int
    no_output: int
    both: int
    padding: int
    carrier: int


KINDS = ConnectionCounts._fields


@dataclass(eq=False)
class WeightUse:
    """One operator's use of a weight: `read` returns the connections that it keeps, [groups, rows, words]; `live` has
    those that join a live source to a relevant target, `nonzero` those that join a live or constant one."""

    weight: Weight
    shape: Shape
    read: Callable[[], Words]
    live: Ends
    nonzero: Ends

    @cached_property
    def kept(self) -> Words:
        return self.read()

    @cached_property
    def tally(self) -> Tally:
        return self.live.tally or self.live.count(self.kept)

    @property
    def all_active(self) -> bool:
        return self.tally.kept == self.tally.active

    @property
    def counts(self) -> ConnectionCounts:
        live = self.tally
        nonzero = live if self.nonzero is self.live else self.nonzero.tally or self.nonzero.count(self.kept)
        return ConnectionCounts(
            kept=live.kept,
            active=live.active,
            no_input=live.with_target - live.with_both,
            no_output=live.with_source - live.with_both,
            both=live.kept - live.with_source - live.with_target + live.with_both,
            padding=live.with_both - live.active,
            carrier=nonzero.active - live.active,
        )

    def merge(self, other: WeightUse) -> WeightUse:
        """Return the union with the use by the same operator at another step."""
        live = self.live.merge(other.live, self.kept)
        same = self.nonzero is self.live and other.nonzero is other.live
        nonzero = live if same else self.nonzero.merge(other.nonzero, self.kept)
        return WeightUse(self.weight, self.shape, self.read, live, nonzero)

    def words(self, kind: str) -> Words:
        """Return the connections of one of KINDS, or those that have a live "source" or a relevant "target"."""
        kept, live = self.kept, self.live
        with_source, with_target = Ends(live.source).select(kept), Ends(None, live.target).select(kept)
        match kind:
            case "kept":
                return kept
            case "active":
                return live.select(kept)
            case "source":
                return with_source
            case "target":
                return with_target
            case "no_input":
                return with_target & ~with_source
            case "no_output":
                return with_source & ~with_target
            case "both":
                return kept & ~with_source & ~with_target
            case "padding":
                return with_source & with_target & ~live.select(kept)
            case _:
                return self.nonzero.select(kept) & ~live.select(kept)

    def bools(self, kind: str) -> Bools:
        """Return the same connections as booleans, in the operator's shape."""
        return unpack(self.words(kind), math.prod(self.shape[1:])).reshape(self.shape)


def build_use(
    layer: str, shape: Shape, kept: Words, *, active: Words, carrier: Words, ends: tuple[Words, Words]
) -> WeightUse:
    """Build a use of a whole stored tensor; `ends` are the connections with a live source and a relevant target."""
    live, nonzero = build_ends(kept, active, *ends), build_ends(kept, active | carrier, None, None)
    return WeightUse(Weight(layer, View()), shape, lambda: kept, live, nonzero)


@dataclass(eq=False)
class Edges:
    """The connections of one layer. A weight with several uses counts once: it is active, or has a live source, or a
    relevant target, if any of its uses does."""

    layer: Layer
    uses: list[WeightUse] = field(default_factory=list)

    @property
    def counts(self) -> ConnectionCounts:
        return (self._single or self._merged).counts

    def count(self, kind: str) -> int:
        """Return one of the counts, by its name in KINDS."""
        return self.counts[KINDS.index(kind)]

    @property
    def neurons(self) -> int:
        """The number of outputs of the operators that use the layer."""
        return sum(use.shape[0] for use in self.uses)

    @property
    def dead_neurons(self) -> int:
        """The number of these outputs that no active connection reaches."""
        return sum(use.tally.dead_rows for use in self.uses)

    def mask(self, kind: str) -> Bools:
        """Return the connections of one of KINDS as a boolean array of the layer's shape."""
        if self._single is None:
            return self._merged.bools(kind).reshape(self.layer.shape)
        flat = np.zeros(math.prod(self.layer.shape), bool)
        scatter(self._single.bools(kind), self._single.weight.view, self._single.shape, flat)
        return flat.reshape(self.layer.shape)

    @property
    def _single(self) -> WeightUse | None:
        """A use that is enough: the only one, or one in which every kept connection is active."""
        size = math.prod(self.layer.shape)
        for use in self.uses:
            if (len(self.uses) == 1 or use.all_active) and covers_once(use.weight.view, use.shape, size):
                return use
        return None

    @cached_property
    def _merged(self) -> WeightUse:
        """Return the union of all uses, in the layer's flat order. Elements without a use are kept and inactive."""
        size = math.prod(self.layer.shape)

        def union(kind: str) -> Words:
            found = np.zeros(size, bool)
            for use in self.uses:
                scatter(use.bools(kind), use.weight.view, use.shape, found)
            return pack(found).reshape(1, 1, -1)

        kept = pack(self.layer.kept().reshape(1, 1, -1))
        active, carrier, ends = union("active"), union("carrier"), (union("source"), union("target"))
        return build_use(self.layer.name, (1, size), kept, active=active, carrier=carrier, ends=ends)
