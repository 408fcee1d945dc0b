"""What is asked of a model: tables of a project file and options of the command line in, one Settings out.

A table's keys are the options' names. The project's [check] table holds for every model; [models."PATTERN"] tables
add to it for the models that they match, in their order; the command line comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from effsparse_cli.checks.bounds import Bounds
from effsparse_cli.checks.keys import BOUND_KEYS, CHECK_KEYS, LAYER_KEYS, MODEL_KEYS, READING_KEYS, checked

CLAIM_TOLERANCE = Fraction(1, 10**6)
"""Claims are floats that somebody computed: what their last digits say is rounding."""


@dataclass(frozen=True)
class LayerSettings:
    bounds: Bounds = field(default_factory=Bounds)
    pattern: str = ""


@dataclass(frozen=True)
class Settings:
    """`layers` are tables by pattern of layers' names; `select` empty means every rule. `reading` are the
    options that say how the model is read."""

    bounds: Bounds = field(default_factory=Bounds)
    connected: bool = True
    may_collapse: tuple[str, ...] = ()
    pattern: str = ""
    strict_masks: bool = False
    claim: Fraction | None = None
    claim_effective: Fraction | None = None
    claim_tolerance: Fraction = CLAIM_TOLERANCE
    baseline_tolerance: Fraction = Fraction(0)
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    count_embeddings: bool = False
    claims: str = "declared"
    memory_limit: int | None = None
    time_limit: float | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)

    def layer(self, name: str) -> LayerSettings:
        """Tables that match the name, the later over the earlier."""
        merged: dict[str, Any] = {}
        for pattern, table in self.layers.items():
            if fnmatchcase(name, pattern):
                merged |= table
        return LayerSettings(_bounds(merged), merged.get("pattern", self.pattern))


def read_tables(section: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The [check] table and the [models] tables of a project file, every key and value checked."""
    models = checked(section.get("models", {}), None, f"{where}, [models]")
    return (
        _table(section.get("check", {}), CHECK_KEYS, f"{where}, [check]"),
        {name: _table(table, MODEL_KEYS, f'{where}, [models."{name}"]') for name, table in models.items()},
    )


def settings_of(tables: Iterable[Mapping[str, Any]]) -> Settings:
    merged: dict[str, Any] = {}
    for table in tables:
        layers = {**merged.get("layers", {})}
        for pattern, asked in table.get("layers", {}).items():
            layers[pattern] = {**layers.pop(pattern, {}), **asked}
        merged |= {**table, "layers": layers}
    named = {key.replace("-", "_"): value for key, value in merged.items() if key not in BOUND_KEYS | READING_KEYS}
    reading = {key.replace("-", "_"): merged[key] for key in READING_KEYS if key in merged}
    known = {each.name for each in fields(Settings)}
    plain = {name: value for name, value in named.items() if name in known}
    return Settings(bounds=_bounds(merged), reading=reading, **plain)


def _table(table: object, keys: Mapping[str, Any], where: str) -> dict[str, Any]:
    found = checked(table, {**keys, "layers": lambda value, place: value}, where)
    if "layers" in found:
        layers = checked(found["layers"], None, f"{where}, layers")
        place = f"{where[:-1]}.layers" if where.endswith("]") else f"{where}, layers"
        found["layers"] = {
            pattern: checked(asked, LAYER_KEYS, f'{place}."{pattern}"]') for pattern, asked in layers.items()
        }
    return found


def _bounds(table: Mapping[str, Any]) -> Bounds:
    return Bounds(**{key.replace("-", "_"): table[key] for key in BOUND_KEYS if key in table})
