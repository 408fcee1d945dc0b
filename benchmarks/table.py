"""Results as Markdown tables, for the terminal and the docs page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.clock import Spread, spread
from benchmarks.growth import Growth, powers
from benchmarks.ratios import Row
from benchmarks.startup import Startup
from benchmarks.step import Step


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ratios(rows: Sequence[Row]) -> str:
    head = ("model", "sparsity", "active", "engine, ms", "engine / count_nonzero", "path norm / engine",
            "saturated / engine")  # fmt: skip
    return table(head, [_row(row) for row in rows])


def _row(row: Row) -> list[str]:
    rounded = f"{row.sparsity:.6g}" if row.sparsity < 0.9999995 else f"1 - {1 - row.sparsity:.1g}"
    sparsity = f"{rounded}{' (last connected)' if row.edge else ''}"
    active = "disconnected" if row.disconnected else f"{row.active:,}{'' if row.agrees is not False else ' (!)'}"
    slower = [_times(found) if found is not None else "-" for found in (row.autograd, row.saturated)]
    return [row.model, sparsity, active, _range(row.milliseconds), _times(row.floor), *slower]


def _times(found: Spread) -> str:
    return f"{_short(found.median)}x ({_short(found.low)}..{_short(found.high)})"


def _range(found: Spread) -> str:
    return f"{_short(found.median)} ({_short(found.low)}..{_short(found.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"


def growth(found: Sequence[Growth]) -> str:
    rows = [
        [f"{g.weights:,}", f"{g.layers:,}", _range(spread([1000 * s for s in g.seconds])), _short(g.extra / 2**20),
         _short(g.largest / 2**20), f"{g.bits_per_weight:.2f}"] for g in found
    ]  # fmt: skip
    head = ("weights", "layers", "ms", "extra memory, MiB", "largest tensor, MiB", "bits per weight beside it")
    text = table(head, rows)
    if len(found) > 1:
        time, memory = powers(found)
        text += f"\n\nTime grows with the power {time.median:.2f} of the number of weights ({time.low:.2f}.."
        text += f"{time.high:.2f} in single rounds), memory with {memory:.2f}."
    return text


def startup(found: Sequence[Startup]) -> str:
    return table(
        ("command", "against", "ratio"), [[f"`{s.command}`", f"`{s.against}`", _times(s.ratio)] for s in found]
    )


def step(found: Step) -> str:
    percent = [f"{100 * s.median:.1f} % ({100 * s.low:.1f}..{100 * s.high:.1f})" for s in (found.plain, found.masked)]
    head = ("model", "batch", "zeros in the weights", "masks of torch.nn.utils.prune")
    return table(head, [[found.model, str(found.batch), *percent]])
