"""Merge the tables of a project file and the command line options into the `Settings` of one model.

Table keys are option names. The [check] table applies to every model, [models."PATTERN"] tables override it for the
models that they match, in order, and command line options override both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from effsparse_cli.checks.bounds import Bounds
from effsparse_cli.checks.keys import BOUND_KEYS, CHECK_KEYS, LAYER_KEYS, LOAD_KEYS, MODEL_KEYS, check_table

CLAIM_TOLERANCE = Fraction(1, 10**6)
"""Claims are often computed floats, whose last digits are rounding errors."""


@dataclass(frozen=True)
class LayerSettings:
    bounds: Bounds = field(default_factory=dict)
    pattern: str = ""


@dataclass(frozen=True)
class Settings:
    """`layers` are tables by layer name pattern; an empty `select` means every rule; `load_arguments` holds the options
    for loading the model."""

    bounds: Bounds = field(default_factory=dict)
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
    load_arguments: Mapping[str, Any] = field(default_factory=dict)

    def layer(self, name: str) -> LayerSettings:
        """Merge the tables that match a layer's name; later tables override earlier ones."""
        merged: dict[str, Any] = {}
        for pattern, table in self.layers.items():
            if fnmatchcase(name, pattern):
                merged |= table
        return LayerSettings(_bounds(merged), merged.get("pattern", self.pattern))


def read_tables(section: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Check the [check] and [models] tables of a project file and return them."""
    models = check_table(section.get("models", {}), None, f"{where}, [models]")
    return (
        _read_table(section.get("check", {}), CHECK_KEYS, f"{where}, [check]"),
        {name: _read_table(table, MODEL_KEYS, f'{where}, [models."{name}"]') for name, table in models.items()},
    )


def build_settings(tables: Iterable[Mapping[str, Any]]) -> Settings:
    merged: dict[str, Any] = {}
    for table in tables:
        layers = {**merged.get("layers", {})}
        for pattern, layer in table.get("layers", {}).items():
            layers[pattern] = {**layers.pop(pattern, {}), **layer}
        merged |= {**table, "layers": layers}
    named = {key.replace("-", "_"): value for key, value in merged.items() if key not in BOUND_KEYS | LOAD_KEYS}
    load_arguments = {key.replace("-", "_"): merged[key] for key in LOAD_KEYS if key in merged}
    known = {each.name for each in fields(Settings)}
    others = {name: value for name, value in named.items() if name in known}
    return Settings(bounds=_bounds(merged), load_arguments=load_arguments, **others)


def _read_table(table: object, keys: Mapping[str, Any], where: str) -> dict[str, Any]:
    result = check_table(table, {**keys, "layers": lambda value, place: value}, where)
    if "layers" in result:
        layers = check_table(result["layers"], None, f"{where}, layers")
        place = f"{where[:-1]}.layers" if where.endswith("]") else f"{where}, layers"
        result["layers"] = {
            pattern: check_table(layer, LAYER_KEYS, f'{place}."{pattern}"]') for pattern, layer in layers.items()
        }
    return result


def _bounds(table: Mapping[str, Any]) -> Bounds:
    return {key: table[key] for key in BOUND_KEYS if table.get(key) is not None}
