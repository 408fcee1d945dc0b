"""The rows and sentences of a comparison, shared by the table and Markdown formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.comparison.results import SHOWN
from effsparse_cli.formatting import dims, percents, plural, thousands

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts, LayerResult
    from effsparse_cli.comparison.results import Comparison, Moves

TITLES = ("layer", "direct", "after", "effective", "after", *(name.replace("_", " ") for name in SHOWN))


def build_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the layers that differ, then the total. Unchanged layers are only counted, in a sentence."""
    changed = [pair for pair in comparison.pairs if pair.differs]
    cells = [(pair.name, *_sparsities(pair.before.counts, pair.after.counts), *_moves(pair.moves)) for pair in changed]
    totals = _sparsities(comparison.before.totals, comparison.after.totals)
    return [*cells, ("total", *totals, *_moves(comparison.moves))]


def build_sentences(comparison: Comparison) -> list[str]:
    sentences = [_summary(comparison)]
    names = (comparison.before_name, comparison.after_name)
    for name, only in zip(names, (comparison.only_before, comparison.only_after), strict=True):
        if only:
            sentences.append(f"Only in {name}: {', '.join(_layer(layer) for layer in only)}.")
    reshaped = [pair.name for pair in comparison.pairs if pair.moves is None]
    if reshaped:
        sentences.append(f"Different shapes, so connections were counted but not compared: {', '.join(reshaped)}.")
    renamed = [pair.name for pair in comparison.pairs if pair.before.name != pair.after.name]
    if renamed:
        sentences.append(f"Matched under different names: {', '.join(renamed)}.")
    for name, analysis in zip(names, (comparison.before, comparison.after), strict=True):
        sentences.extend(_doubts(name, analysis))
    return sentences


def _summary(comparison: Comparison) -> str:
    same = sum(not pair.differs for pair in comparison.pairs)
    if not comparison.differs:
        return f"No difference: the same connections are kept and active in {plural(same, 'layer')}."
    changed = len(comparison.pairs) - same
    return f"{plural(changed, 'layer')} {'differs' if changed == 1 else 'differ'}, {thousands(same)} the same."


def _doubts(name: str, analysis: Analysis) -> list[str]:
    doubts = [f"{name} is disconnected: no path leads from input to output."] if analysis.disconnected else []
    if analysis.unknown:
        doubts.append(f"{name} has unknown operators ({', '.join(analysis.unknown)}): more may be inactive.")
    return doubts


def _sparsities(before: Counts, after: Counts) -> tuple[str, str, str, str]:
    """Return direct before and after, effective before and after. Unequal numbers of a pair look unequal."""
    if before.connections != after.connections:
        old, new = (_percents((c.kept, c.active), c.connections) for c in (before, after))
        return old[0], new[0], old[1], new[1]
    direct, effective = (
        _percents(numbers, before.connections) for numbers in ((before.kept, after.kept), (before.active, after.active))
    )
    return direct[0], direct[1], effective[0], effective[1]


def _percents(left: tuple[int, int], whole: int) -> list[str]:
    return percents([whole - number for number in left], whole)


def _moves(moves: Moves | None) -> tuple[str, ...]:
    if moves is None:
        return ("?",) * len(SHOWN)
    return tuple(thousands(number) if (number := getattr(moves, name)) else "" for name in SHOWN)


def _layer(layer: LayerResult) -> str:
    return f"{layer.name} ({dims(layer.shape)})"
