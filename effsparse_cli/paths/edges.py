"""What a pass found out about connections: per use of a weight as packed bits, and per layer as counts or masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, View, Weight
from effsparse_cli.kernel.bits import Words, pack, unpack
from effsparse_cli.kernel.structures import Tally
from effsparse_cli.paths.views import covers_once, scatter


@dataclass(frozen=True, eq=False)
class Ends:
    """Which connections have a source with paths to it, which a target with paths from it, and which have both and yet
    never meet. None stands for all, or, of `missed`, for none; words that are given broadcast to the weight's own,
    [groups, rows, words]. `tally`: what the kernel has counted, if it was asked."""

    source: Words | None = None
    target: Words | None = None
    missed: Words | None = None
    tally: Tally | None = None

    @property
    def whole(self) -> bool:
        return self.source is None and self.target is None and self.missed is None

    def joined(self, kept: Words) -> Words:
        for ends in (self.source, self.target):
            kept = kept if ends is None else kept & ends
        return kept if self.missed is None else kept & ~self.missed

    def merge(self, other: Ends, kept: Words) -> Ends:
        """Of the same weight at another step."""
        if self.whole or other.whole:
            return Ends()
        source = None if self.source is None or other.source is None else self.source | other.source
        target = None if self.target is None or other.target is None else self.target | other.target
        return ends_of(kept, self.joined(kept) | other.joined(kept), source, target)


def ends_of(kept: Words, joined: Words, source: Words | None, target: Words | None) -> Ends:
    """From what is joined."""
    missed = Ends(source, target).joined(kept) & ~joined
    return Ends(source, target, missed if missed.any() else None)


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


def count_connections(live: Tally, nonzero: Tally) -> ConnectionCounts:
    """Count from the sources that are live and those that are not always zero."""
    return ConnectionCounts(
        kept=live.kept,
        active=live.active,
        no_input=live.with_target - live.with_both,
        no_output=live.with_source - live.with_both,
        both=live.kept - live.with_source - live.with_target + live.with_both,
        padding=live.with_both - live.active,
        carrier=nonzero.active - live.active,
    )


class Seen(NamedTuple):
    """One operator's use of a weight: the rows that it keeps, [groups, rows, words], which connections join a live
    source to a relevant target, and which join one that is not always zero, be it live or constant."""

    kept: Words
    live: Ends
    nonzero: Ends


@dataclass(eq=False)
class Use:
    """One operator's use of a weight. `look` says which connections do what, and is called when that is asked;
    `known` says how many do, live and not always zero, where that was counted already."""

    weight: Weight
    shape: Shape
    look: Callable[[], Seen]
    known: tuple[Tally, Tally] | None = None

    @cached_property
    def seen(self) -> Seen:
        return self.look()

    @property
    def kept(self) -> Words:
        return self.seen.kept

    @property
    def tallies(self) -> tuple[Tally, Tally]:
        return self.known or self._tallied

    @cached_property
    def _tallied(self) -> tuple[Tally, Tally]:
        kept, live, nonzero = self.seen
        tally = _tally(kept, live)
        return tally, tally if nonzero is live else _tally(kept, nonzero)

    @property
    def whole(self) -> bool:
        """Is everything that it keeps active?"""
        live, _ = self.tallies
        return live.kept == live.active

    def merge(self, other: Use) -> Use:
        """The same operator at another step."""
        (kept, live, nonzero), (_, live_too, nonzero_too) = self.seen, other.seen
        merged = live.merge(live_too, kept)
        same = nonzero is live and nonzero_too is live_too
        return Use(
            self.weight,
            self.shape,
            partial(Seen, kept, merged, merged if same else nonzero.merge(nonzero_too, kept)),
        )

    def words(self, kind: str) -> Words:
        """Return the connections of one of KINDS, or those that have a live "source" or a relevant "target"."""
        kept, live, nonzero = self.seen
        with_source, with_target = Ends(live.source).joined(kept), Ends(None, live.target).joined(kept)
        match kind:
            case "kept":
                return kept
            case "active":
                return live.joined(kept)
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
                return with_source & with_target & ~live.joined(kept)
            case _:
                return nonzero.joined(kept) & ~live.joined(kept)

    @property
    def counts(self) -> ConnectionCounts:
        return count_connections(*self.tallies)

    @property
    def dead(self) -> int:
        """Outputs that no active connection reaches."""
        return self.tallies[0].dead_rows

    @property
    def columns(self) -> int:
        return math.prod(self.shape[1:])


@dataclass(eq=False)
class Edges:
    """All that is known of one layer's connections. A weight with several uses counts once: it is active,
    or has a live source, or a relevant target, if any of its uses does."""

    layer: Layer
    uses: list[Use] = field(default_factory=list)

    @property
    def counts(self) -> ConnectionCounts:
        return (self._single or self._merged).counts

    def count(self, kind: str) -> int:
        """Return one of the counts, by its name in KINDS."""
        return self.counts[KINDS.index(kind)]

    @property
    def neurons(self) -> int:
        """Outputs of the operators that use the layer."""
        return sum(use.shape[0] for use in self.uses)

    @property
    def dead_neurons(self) -> int:
        """Outputs that no active connection reaches."""
        return sum(use.dead for use in self.uses)

    def mask(self, kind: str) -> Bools:
        """The same as a boolean array of the layer's shape."""
        if self._single is None:
            return self._bools(self._merged, kind).reshape(self.layer.shape)
        flat = np.zeros(math.prod(self.layer.shape), bool)
        scatter(self._bools(self._single, kind), self._single.weight.view, self._single.shape, flat)
        return flat.reshape(self.layer.shape)

    @property
    def _single(self) -> Use | None:
        """A use that tells all: the only one, or one in which everything that is kept is active."""
        size = math.prod(self.layer.shape)
        for use in self.uses:
            if (len(self.uses) == 1 or use.whole) and covers_once(use.weight.view, use.shape, size):
                return use
        return None

    @cached_property
    def _merged(self) -> Use:
        """The union over uses in the layer's own flat order. What no use covers is kept and reaches nothing."""
        size = math.prod(self.layer.shape)

        def union(kind: str) -> Words:
            found = np.zeros(size, bool)
            for use in self.uses:
                scatter(self._bools(use, kind), use.weight.view, use.shape, found)
            return pack(found).reshape(1, 1, -1)

        kept = pack(self.layer.kept().reshape(1, 1, -1))
        active, source, target = (union(kind) for kind in ("active", "source", "target"))
        live, nonzero = ends_of(kept, active, source, target), ends_of(kept, active | union("carrier"), None, None)
        return Use(Weight(self.layer.name, View()), (1, size), partial(Seen, kept, live, nonzero))

    @staticmethod
    def _bools(use: Use, kind: str) -> Bools:
        return unpack(use.words(kind), use.columns).reshape(use.shape)


def _tally(kept: Words, ends: Ends) -> Tally:
    if ends.tally is not None:
        return ends.tally
    groups, rows, width = kept.shape
    source = _spread(ends.source, kept, (groups, 1, width))
    target = _spread(ends.target, kept, (groups, rows, 1))
    return kernel.tally(kept, groups, width, source, target, ends.missed)


def _spread(words: Words | None, kept: Words, short: tuple[int, int, int]) -> Words | None:
    """Of the weight's own shape, unless it has the short one."""
    return words if words is None or words.shape == short else np.ascontiguousarray(np.broadcast_to(words, kept.shape))
