"""The result of `effsparse diff`: the layers that differ, the totals, and sentences about the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from effsparse_cli.comparison.results import SHOWN, Comparison
from effsparse_cli.formatting import dims, percents, plural, thousands
from effsparse_cli.report.document import counts_to_json, json_text, totals_to_json
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, render_markdown, render_table
from effsparse_cli.report.tables import Table

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts, LayerResult
    from effsparse_cli.comparison.results import Moves

SCHEMA_VERSION = 1
TITLES = ("layer", "direct", "after", "effective", "after", *(name.replace("_", " ") for name in SHOWN))


def build_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the layers that differ, then the total. Unchanged layers are only counted, in a sentence."""
    changed = [pair for pair in comparison.pairs if pair.differs]
    cells = [
        (pair.name, *format_sparsities(pair.before.counts, pair.after.counts), *format_moves(pair.moves))
        for pair in changed
    ]
    totals = format_sparsities(comparison.before.totals, comparison.after.totals)
    return [*cells, ("total", *totals, *format_moves(comparison.moves))]


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


def format_sparsities(before: Counts, after: Counts) -> tuple[str, str, str, str]:
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


def format_moves(moves: Moves | None) -> tuple[str, ...]:
    if moves is None:
        return ("?",) * len(SHOWN)
    return tuple(thousands(number) if (number := getattr(moves, name)) else "" for name in SHOWN)


def _layer(layer: LayerResult) -> str:
    return f"{layer.name} ({dims(layer.shape)})"


def render_json(comparison: Comparison) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "before": comparison.before_name,
        "after": comparison.after_name,
        "differs": comparison.differs,
        "totals": {
            "before": totals_to_json(comparison.before),
            "after": totals_to_json(comparison.after),
            **_moves_to_json(comparison.moves),
        },
        "layers": [
            {
                "before": _layer_to_json(pair.before),
                "after": _layer_to_json(pair.after),
                "differs": pair.differs,
                **_moves_to_json(pair.moves),
            }
            for pair in comparison.pairs
        ],
        "only_before": [_layer_to_json(layer) for layer in comparison.only_before],
        "only_after": [_layer_to_json(layer) for layer in comparison.only_after],
    }
    return json_text(document)


def _layer_to_json(layer: LayerResult) -> dict[str, Any]:
    return {"name": layer.name, "op": layer.op, "shape": list(layer.shape), **counts_to_json(layer.counts)}


def _moves_to_json(moves: Moves | None) -> dict[str, int | None]:
    return {name: None if moves is None else getattr(moves, name) for name in SHOWN}


def _render_html(comparison: Comparison) -> str:
    # Imported here, because this page is made from other formats.
    from effsparse_cli.report.html.diff import render

    return render(comparison)


@dataclass(frozen=True, repr=False)
class Difference(Result, Comparison):
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {
        "table": render_table,
        "json": render_json,
        "markdown": render_markdown,
        "html": _render_html,
    }

    def to_html(self) -> str:
        """Return a page of the two models, with images of their layers if `pictures=True` was passed to `diff`."""
        return self.render("html")

    def table(self) -> Table:
        *rows, total = build_rows(self)
        return Table(
            title=f"{self.before_name} -> {self.after_name}",
            titles=TITLES,
            rows=rows,
            total=total,
            sentences=build_sentences(self),
        )

    def _repr_html_(self) -> str:
        from effsparse_cli.report.html.compact import render_difference

        return render_difference(self)
