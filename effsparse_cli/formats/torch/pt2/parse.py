"""Parse JSON from untrusted files strictly: no duplicate keys, no numbers out of range, only constants of JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_INT = 1 << 63
SPECIAL = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""Numbers that JSON lacks; torch writes them as strings."""


def parse(content: bytes | str) -> Any:
    return json.loads(content, object_pairs_hook=_object, parse_int=_int, parse_constant=_no_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a JSON object has a duplicate key")
    return made


def _int(text: str) -> int:
    if len(text) > 20:
        raise ValueError("a number has too many digits")
    return as_int(int(text))


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def as_int(value: Any) -> int:
    if type(value) is not int or not -MAX_INT <= value < MAX_INT:
        raise ValueError(f"{str(value)[:40]!r} is not a 64-bit integer")
    return value


def as_float(value: Any) -> float:
    if isinstance(value, str):
        return SPECIAL[value]
    if type(value) not in (int, float):
        raise ValueError(f"{str(value)[:40]!r} is not a number")
    return float(value)


def as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} is not a string")
    return value


def as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is not a boolean")
    return value


def only(union: Any) -> tuple[str, Any]:
    """Return the only item of an object that represents a union type."""
    ((kind, value),) = union.items()
    return kind, value
