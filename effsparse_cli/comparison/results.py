"""The result of a comparison: pairs of layers, before and after, and layers without a partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.analysis.pictures.picture import Picture
    from effsparse_cli.analysis.results import Analysis, Counts, LayerResult

SHOWN = ("gained", "lost", "newly_dead", "revived")


@dataclass(frozen=True)
class Moves:
    """Numbers of connections that changed. Gained and lost ones are kept in one model only; newly dead ones are kept in
    both but active only before, revived ones only after."""

    gained: int = 0
    lost: int = 0
    newly_dead: int = 0
    revived: int = 0

    def __add__(self, other: Moves) -> Moves:
        return Moves(*(getattr(self, name) + getattr(other, name) for name in SHOWN))


@dataclass(frozen=True)
class Pair:
    """One layer of each model. `moves` is None if the shapes differ, so that connections cannot be compared."""

    before: LayerResult
    after: LayerResult
    moves: Moves | None

    @property
    def name(self) -> str:
        same = self.before.name == self.after.name
        return self.before.name if same else f"{self.before.name} -> {self.after.name}"

    @property
    def differs(self) -> bool:
        return self.moves != Moves() or _numbers(self.before.counts) != _numbers(self.after.counts)


@dataclass(frozen=True)
class Comparison:
    """`only_before` and `only_after` are the layers without a partner. `pictures`, if they were asked for, are by the
    name that a layer has before; layers whose shapes differ have none. Their kinds are those of `Moves`, `same` for
    connections that are active in both models, and `inactive` for those kept in both and active in neither."""

    before_name: str
    after_name: str
    before: Analysis
    after: Analysis
    pairs: tuple[Pair, ...]
    only_before: tuple[LayerResult, ...] = ()
    only_after: tuple[LayerResult, ...] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict, repr=False)

    @property
    def moves(self) -> Moves:
        return sum((pair.moves for pair in self.pairs if pair.moves is not None), Moves())

    @property
    def differs(self) -> bool:
        return bool(self.only_before or self.only_after) or any(pair.differs for pair in self.pairs)


def _numbers(counts: Counts) -> tuple[int, int, int]:
    return counts.connections, counts.kept, counts.active
