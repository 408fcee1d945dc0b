"""The page of `effsparse diff --format html`: two models side by side, and what became of the connections of each
layer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from effsparse_cli.analysis.groups import group_name, name_depth
from effsparse_cli.analysis.results import Counts
from effsparse_cli.comparison.results import SHOWN, Moves
from effsparse_cli.formatting import dims, plural, thousands
from effsparse_cli.report.comparison import build_sentences, format_moves, format_sparsities, render_json
from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.html.filling import embed_json, fill_template
from effsparse_cli.report.html.table import DEEPEST, Heading, HtmlTable, Row
from effsparse_cli.report.html.verdict import Share, Verdict, build_verdict
from effsparse_cli.report.html.view import encode_pictures
from effsparse_cli.version import __version__

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, LayerResult
    from effsparse_cli.comparison.results import Comparison, Pair

MOVES = ("gained", "revived", "lost", "newly_dead")
COUNTS, SPARSITIES = ("kept", "active"), ("direct", "effective")


@dataclass(frozen=True)
class Line:
    """A layer of either model or of both, or the sum of several; None on a side that does not have it. Groups are found
    by `key`, the name in one model."""

    key: str
    name: str
    shape: str
    before: Counts | None
    after: Counts | None
    moves: Moves | None
    state: str


@dataclass(frozen=True)
class Model:
    """One of the two models: `side` is before or after, `name` the file and `path` all of it."""

    side: str
    name: str
    path: str
    verdict: Verdict


def render(comparison: Comparison) -> str:
    """Return the page. Without pictures in the comparison, it has no images of layers."""
    shown = strip_pictures(comparison)
    models = build_models(shown)
    return fill_template(
        "diff.html",
        script="diff.js",
        version=__version__,
        models=models,
        moves=build_moves(shown),
        sentences=build_sentences(shown),
        table=build_diff_table(shown),
        notes=[f"{model.name}: {note}" for model in models for note in model.verdict.notes],
        document=embed_json(render_json(comparison)),
        view=embed_json(json.dumps({"pictures": encode_pictures(comparison.pictures)}, separators=(",", ":"))),
    )


def strip_pictures(comparison: Comparison) -> Comparison:
    """Return the comparison as text that can be shown: without pictures and masks, and with names escaped."""
    before, after = (replace(each, active_masks={}) for each in (comparison.before, comparison.after))
    return escaped(replace(comparison, before=before, after=after, pictures={}), printable)


def build_models(comparison: Comparison) -> list[Model]:
    sides = {"before": comparison.before, "after": comparison.after}
    totals = [analysis.totals for analysis in sides.values()]

    def build(side: str, analysis: Analysis) -> Model:
        path: str = getattr(comparison, f"{side}_name")
        return Model(side, PurePath(path).name or path, path, build_verdict(analysis, totals))

    return [build(*side) for side in sides.items()]


def build_moves(comparison: Comparison) -> list[Share]:
    """Return the connections that changed, by kind."""
    numbers = {name: getattr(comparison.moves, name) for name in MOVES}
    return [Share(name, thousands(number), "") for name, number in numbers.items()]


def build_diff_table(comparison: Comparison, *, grouped: bool = True) -> HtmlTable:
    """Return all layers, those of one model last, and if `grouped` their sums by module at every depth."""
    lines = [
        *map(_pair_line, comparison.pairs),
        *(_single_line(layer, "before", comparison.before_name) for layer in comparison.only_before),
        *(_single_line(layer, "after", comparison.after_name) for layer in comparison.only_after),
    ]
    groups = _find_groups(lines) if grouped else {}
    numbers = {name: i for i, name in enumerate(groups)}
    depths = max(map(name_depth, groups), default=0)
    totals = (comparison.before.totals, comparison.after.totals)
    return HtmlTable(
        headings=[
            Heading("layer", right=False),
            Heading("shape", right=False, name="shape"),
            *_side_headings(COUNTS),
            *(Heading(name.replace("_", " "), right=True, name=name) for name in MOVES),
            *_side_headings(SPARSITIES),
        ],
        rows=[
            Row(
                _cells(line),
                groups=[numbers.get(group_name(line.key, depth), -1) for depth in range(1, depths + 1)],
                state=line.state,
            )
            for line in lines
        ],
        total=_cells(Line("", "total", "", *totals, comparison.moves, "")),
        groups=[Row(_cells(line)) for line in groups.values()],
        noun="layer",
    )


def _side_headings(measures: Sequence[str]) -> list[Heading]:
    return [Heading(f"{measure} {side}", right=True) for measure in measures for side in ("before", "after")]


def _pair_line(pair: Pair) -> Line:
    shapes = [dims(layer.shape) for layer in (pair.before, pair.after)]
    state = "other shape" if pair.moves is None else "changed" if pair.differs else "same"
    shape = shapes[0] if pair.moves is not None or shapes[0] == shapes[1] else " -> ".join(shapes)
    return Line(pair.before.name, pair.name, shape, pair.before.counts, pair.after.counts, pair.moves, state)


def _single_line(layer: LayerResult, side: str, model: str) -> Line:
    before, after = (layer.counts if side == each else None for each in ("before", "after"))
    state = f"only in {PurePath(model).name or model}"
    return Line(layer.name, layer.name, dims(layer.shape), before, after, Moves(), state)


def _find_groups(lines: Sequence[Line]) -> dict[str, Line]:
    """Return the sums of modules that have several layers, at every depth."""
    groups: dict[str, Line] = {}
    for depth in range(1, min(DEEPEST + 1, max((name_depth(line.key) for line in lines), default=0))):
        members: dict[str, list[Line]] = {}
        for line in lines:
            members.setdefault(group_name(line.key, depth), []).append(line)
        groups |= {name: _add(name, several) for name, several in members.items() if len(several) > 1}
    return groups


def _add(name: str, lines: Sequence[Line]) -> Line:
    before = sum((line.before for line in lines if line.before), Counts())
    after = sum((line.after for line in lines if line.after), Counts())
    moves = [line.moves for line in lines if line.moves is not None]
    total = sum(moves, Moves()) if len(moves) == len(lines) else None
    return Line(name, name, plural(len(lines), "layer"), before, after, total, "")


def _cells(line: Line) -> list[str]:
    before, after = line.before or Counts(), line.after or Counts()
    counts = [thousands(number) for pair in zip(before[1:3], after[1:3], strict=True) for number in pair]
    cells = [*counts, *format_sparsities(before, after)]
    for i, side in enumerate((line.before, line.after)):
        if side is None:
            cells[i::2] = [""] * len(cells[i::2])
    moves = dict(zip(SHOWN, format_moves(line.moves), strict=True))
    return [line.name, line.shape, *cells[:4], *(moves[name] for name in MOVES), *cells[4:]]
