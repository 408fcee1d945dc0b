"""A baseline: what models measured when somebody accepted them, in a JSON file that is kept with them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.analysis.results import Analysis, Counts
from effsparse_cli.errors import UsageError

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One model as it was."""

    totals: Counts
    layers: Mapping[str, Counts]


def key(model: str, baseline: Path) -> str:
    """Models are named from the baseline's folder, so that both can move together. A model that is a link keeps
    its own name: caches link to files that are named anew with every version."""
    path = Path(model)
    return Path(os.path.relpath(path.parent.resolve() / path.name, baseline.resolve().parent)).as_posix()


def read_baseline(file: Path) -> dict[str, Entry]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"its schema_version is {document['schema_version']!r}")
        return {name: _entry(model) for name, model in document["models"].items()}
    except OSError as error:
        raise UsageError(
            f"the baseline {file} cannot be read: {error.strerror or error}. --write-baseline makes one."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"the baseline {file} was not written by effsparse --write-baseline ({type(error).__name__}: "
            f"{str(error)[:200]})."
        ) from error


def baseline_text(measured: Iterable[tuple[str, Analysis]], file: Path) -> str:
    """With the models of this run added or replaced; those of earlier runs stay."""
    entries = read_baseline(file) if os.path.exists(file) else {}
    for model, analysis in measured:
        entries[key(model, file)] = Entry(analysis.totals, {x.name: x.counts for x in analysis.layers})
    models = {name: _document(entries[name]) for name in sorted(entries)}
    return json.dumps({"schema_version": SCHEMA_VERSION, "models": models}, indent=2, ensure_ascii=False) + "\n"


def _document(entry: Entry) -> dict[str, Any]:
    return {**_numbers(entry.totals), "layers": {name: _numbers(counts) for name, counts in entry.layers.items()}}


def _numbers(counts: Counts) -> dict[str, int]:
    return {"connections": counts.connections, "kept": counts.kept, "active": counts.active}


def _entry(model: Mapping[str, Any]) -> Entry:
    return Entry(_counts(model), {name: _counts(layer) for name, layer in model["layers"].items()})


def _counts(numbers: Mapping[str, Any]) -> Counts:
    counted = [numbers[name] for name in ("connections", "kept", "active")]
    if not all(type(number) is int and number < 1 << 63 for number in counted):
        raise ValueError("its counts are not all whole numbers")
    found = Counts(*counted)
    if not 0 <= found.active <= found.kept <= found.connections or not found.connections:
        raise ValueError(f"{found.active} active of {found.kept} kept of {found.connections} connections")
    return found
