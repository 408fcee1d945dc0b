"""A comparison as a table, JSON or Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effsparse_cli.comparison.results import SHOWN, Comparison, Moves, Renderer
from effsparse_cli.report.comparison_rows import TITLES, rows, sentences
from effsparse_cli.report.escape import escaping, json_text, markdown_code, plain
from effsparse_cli.report.escape import markdown as in_markdown

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts, LayerResult

SCHEMA_VERSION = 1


@escaping(plain)
def table(comparison: Comparison) -> str:
    lines = [TITLES, *rows(comparison)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(TITLES))]
    text = [
        "  ".join(f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(line)).rstrip()
        for line in lines
    ]
    head = f"{comparison.before_name} -> {comparison.after_name}"
    return "\n".join([head, "", *text, "", *sentences(comparison)]) + "\n"


def markdown(comparison: Comparison) -> str:
    head = f"**{in_markdown(comparison.before_name)}** to **{in_markdown(comparison.after_name)}**"
    lines = [_row(TITLES), _row(["---", *["---:"] * (len(TITLES) - 1)]), *map(_named_row, rows(comparison))]
    return "\n\n".join([head, "\n".join(lines), *map(in_markdown, sentences(comparison))]) + "\n"


def as_json(comparison: Comparison) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "before": comparison.before_name,
        "after": comparison.after_name,
        "differs": comparison.differs,
        "totals": {
            "before": _counts(comparison.before.totals) | {"disconnected": comparison.before.disconnected},
            "after": _counts(comparison.after.totals) | {"disconnected": comparison.after.disconnected},
            **_moves(comparison.moves),
        },
        "layers": [
            {
                "before": _layer(pair.before),
                "after": _layer(pair.after),
                "differs": pair.differs,
                **_moves(pair.moves),
            }
            for pair in comparison.pairs
        ],
        "only_before": [_layer(layer) for layer in comparison.only_before],
        "only_after": [_layer(layer) for layer in comparison.only_after],
    }
    return json_text(document)


COMPARISON_FORMATS: dict[str, Renderer] = {"table": table, "json": as_json, "markdown": markdown}


def _layer(layer: LayerResult) -> dict[str, Any]:
    return {"name": layer.name, "op": layer.op, "shape": list(layer.shape), **_counts(layer.counts)}


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "connections": counts.connections,
        "kept": counts.kept,
        "active": counts.active,
        "direct_sparsity": counts.direct_sparsity,
        "effective_sparsity": counts.effective_sparsity,
    }


def _moves(moves: Moves | None) -> dict[str, int | None]:
    return {name: None if moves is None else getattr(moves, name) for name in SHOWN}


def _named_row(cells: tuple[str, ...]) -> str:
    return _row([markdown_code(cells[0]), *cells[1:]])


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
