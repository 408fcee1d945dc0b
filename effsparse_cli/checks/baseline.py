"""A baseline: the counts of accepted models, in a JSON file that is kept with them."""

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
class BaselineModel:
    """The counts of one model when the baseline was written."""

    totals: Counts
    layers: Mapping[str, Counts]


def baseline_key(model: str, baseline: Path) -> str:
    """Return the model's path relative to the baseline's folder, so that both can move together. Symbolic links are not
    resolved: caches link to files whose names change with every version."""
    path = Path(model)
    return Path(os.path.relpath(path.parent.resolve() / path.name, baseline.resolve().parent)).as_posix()


def read_baseline(file: Path) -> dict[str, BaselineModel]:
    try:
        document = json.loads(file.read_text(encoding="utf-8-sig"))
        if document["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"its schema_version is {document['schema_version']!r}")
        return {name: _read_model(model) for name, model in document["models"].items()}
    except OSError as error:
        raise UsageError(
            f"the baseline {file} cannot be read: {error.strerror or error}. --write-baseline creates one."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"the baseline {file} was not written by effsparse --write-baseline ({type(error).__name__}: "
            f"{str(error)[:200]})."
        ) from error


def baseline_text(measured: Iterable[tuple[str, Analysis]], file: Path) -> str:
    """Return the new content of a baseline file: models of this run replace or join those of earlier runs."""
    entries = read_baseline(file) if os.path.exists(file) else {}
    for model, analysis in measured:
        entries[baseline_key(model, file)] = BaselineModel(analysis.totals, {x.name: x.counts for x in analysis.layers})
    models = {name: _model_to_json(entries[name]) for name in sorted(entries)}
    return json.dumps({"schema_version": SCHEMA_VERSION, "models": models}, indent=2, ensure_ascii=False) + "\n"


def _model_to_json(model: BaselineModel) -> dict[str, Any]:
    return {**_numbers(model.totals), "layers": {name: _numbers(counts) for name, counts in model.layers.items()}}


def _numbers(counts: Counts) -> dict[str, int]:
    return {"connections": counts.connections, "kept": counts.kept, "active": counts.active}


def _read_model(model: Mapping[str, Any]) -> BaselineModel:
    return BaselineModel(_counts(model), {name: _counts(layer) for name, layer in model["layers"].items()})


def _counts(numbers: Mapping[str, Any]) -> Counts:
    values = [numbers[name] for name in ("connections", "kept", "active")]
    if not all(type(number) is int and number < 1 << 63 for number in values):
        raise ValueError("a count is not an integer")
    counts = Counts(*values)
    if not 0 <= counts.active <= counts.kept <= counts.connections or not counts.connections:
        raise ValueError(f"{counts.active} active of {counts.kept} kept of {counts.connections} connections")
    return counts
