"""The keys of project file tables, with a function that checks and converts each value. Command line options have the
same names and the same checks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from effsparse_cli.arguments import parse_share
from effsparse_cli.checks.rules import BOUNDS
from effsparse_cli.errors import UsageError

Reader = Callable[[Any, str], Any]
LARGEST = 1e300
CLAIMS = ("declared", "all")
MEMORY = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*([kKMGT]?B)?")
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
PATTERN = re.compile(r"([1-9]\d*):([1-9]\d*)|([1-9]\d*)x([1-9]\d*)|none")


def share(value: Any, where: str) -> Fraction:
    """Return a number between 0 and 1 exactly as written: 0.99 and "99%" are 99/100, whatever the float is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, str) and not (is_number and 0 <= value <= 100):
        raise UsageError(f"{where}: {shown(value)} is not a number between 0 and 1: use 0.99 or 99%.")
    return parse_share(value, where)


def shown(value: Any) -> str:
    """Format a value for an error message, on one line at most."""
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__} of many digits"
    return text if len(text) < 80 else f"{text[:76]} ..."


def number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise UsageError(f"{where}: {shown(value)} is not a number of connections: use an integer, 0 or more.")
    return value


def flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {shown(value)} is neither true nor false.")
    return value


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where}: {shown(value)} is not a string.")
    if not value or "\0" in value:
        raise UsageError(f"{where}: {shown(value)} is empty or has null characters.")
    return value


def texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(text(each, where) for each in (value if isinstance(value, list | tuple) else [value]))


def path(value: Any, where: str) -> Path:
    return value if isinstance(value, Path) else Path(text(value, where))


def size(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < LARGEST:
        raise UsageError(f"{where}: {shown(value)} is not a size: use a number, 0 or more.")
    return float(value)


def memory(value: Any, where: str) -> int:
    """Return bytes, from "4GB", "512 MB" or a number of bytes."""
    match = MEMORY.fullmatch(str(value).strip()) if isinstance(value, str | int) else None
    if not match or isinstance(value, bool) or float(match[1]) <= 0:
        raise UsageError(f"{where}: {shown(value)} is not an amount of memory: use 4GB or 512MB.")
    return int(float(match[1]) * UNITS[(match[2] or "B").upper()])


def seconds(value: Any, where: str) -> float:
    number = size(value, where)
    if not number:
        raise UsageError(f"{where}: the time limit must be greater than 0.")
    return number


def claims(value: Any, where: str) -> str:
    if value not in CLAIMS:
        raise UsageError(f"{where}: {shown(value)} is not one of {', '.join(CLAIMS)}.")
    return str(value)


def pattern(value: Any, where: str) -> str:
    match = PATTERN.fullmatch(value) if isinstance(value, str) else None
    if not match or (match[1] and int(match[1]) >= int(match[2])):
        raise UsageError(
            f"{where}: {shown(value)} is not a pattern: use N:M (2:4), ROWSxINPUTS for blocks (4x4), or none for no "
            "pattern."
        )
    return match[0]


def sizes(value: Any, where: str) -> tuple[str, ...]:
    """Return shapes as on the command line ("1,3,32,32"), also from a list of integers."""
    if isinstance(value, list) and value and all(isinstance(n, int) and 0 < n < 1 << 63 for n in value):
        return (",".join(map(str, value)),)
    return texts(value, where)


BOUND_KEYS: dict[str, Reader] = {key: number if bound.is_number else share for key, bound in BOUNDS.items()}
LAYER_KEYS: dict[str, Reader] = {key: BOUND_KEYS[key] for key, bound in BOUNDS.items() if bound.for_layers}
LAYER_KEYS |= {"pattern": pattern}
RULE_KEYS: dict[str, Reader] = BOUND_KEYS | {
    "pattern": pattern,
    "connected": flag,
    "may-collapse": texts,
    "strict-masks": flag,
    "claim-tolerance": share,
    "baseline-tolerance": share,
    "select": texts,
    "ignore": texts,
    "count-embeddings": flag,
    "claims": claims,
    "memory-limit": memory,
    "time-limit": seconds,
}
LOAD_KEYS: dict[str, Reader] = {
    "input-shape": sizes,
    "dim": texts,
    "outputs": texts,
    "arch": text,
    "arch-arg": texts,
    "key": text,
    "masks": path,
    "zeros-are-pruned": flag,
    "zero-tol": size,
    "norms-dont-cut": flag,
}
MODEL_KEYS: dict[str, Reader] = RULE_KEYS | LOAD_KEYS | {"claim": share, "claim-effective": share}
CHECK_KEYS: dict[str, Reader] = (
    RULE_KEYS
    | LOAD_KEYS
    | {
        "paths": texts,
        "exclude": texts,
        "baseline": text,
    }
)


def check_table(table: object, keys: Mapping[str, Reader] | None, where: str) -> dict[str, Any]:
    """Check the keys of a table (any are allowed if `keys` is None) and convert its values."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table.")
    if keys is None:
        return dict(table)
    for name in table:
        if name not in keys:
            close = difflib.get_close_matches(name, keys, n=1, cutoff=0)
            raise UsageError(
                f"{where}: unknown key {name!r}; did you mean {close[0]!r}? Known: {', '.join(sorted(keys))}."
            )
    return {name: keys[name](value, f"{where}, {name}") for name, value in table.items()}
