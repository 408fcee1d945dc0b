"""JSON from a file of unknown origin becomes plain data, or an error: no object has a key twice, no number is out of
range, and nothing that is not JSON passes as a number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from effsparse_cli.errors import EffsparseError, LoadError

LARGEST_INT = 1 << 63
SPECIAL = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""Numbers that JSON lacks: torch writes them as text."""


def parse(content: bytes | str) -> Any:
    return json.loads(content, object_pairs_hook=_object, parse_int=_int, parse_constant=_no_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a JSON object has a key twice")
    return made


def _int(text: str) -> int:
    if len(text) > 20:
        raise ValueError("a number has too many digits")
    return as_int(int(text))


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def as_int(value: Any) -> int:
    if type(value) is not int or not -LARGEST_INT <= value < LARGEST_INT:
        raise ValueError(f"{str(value)[:40]!r} is not an integer of 64 bits")
    return value


def as_float(value: Any) -> float:
    if isinstance(value, str):
        return SPECIAL[value]
    if type(value) not in (int, float):
        raise ValueError(f"{str(value)[:40]!r} is not a number")
    return float(value)


def as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} is not text")
    return value


def as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is neither true nor false")
    return value


def only(union: Any) -> tuple[str, Any]:
    """The one entry of an object that stands for one of several types."""
    ((kind, value),) = union.items()
    return kind, value


@contextmanager
def described_by(path: Path) -> Iterator[None]:
    """Whatever goes wrong while a file's description is followed is the file's fault."""
    try:
        yield
    except EffsparseError:
        raise
    except (Exception, RecursionError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        detail = f"{type(error).__name__}: {reason[:200]}" if reason else type(error).__name__
        raise LoadError(f"{path} is damaged: what it describes makes no sense ({detail}). Export it again.") from error
