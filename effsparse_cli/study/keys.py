"""The keys of a study file, with a function that checks and converts each value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from effsparse_cli.arguments import choose, parse_number, parse_share
from effsparse_cli.checks.keys import Reader, check_table, flag, shown, text
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.architectures import ARCHITECTURES
from effsparse_cli.study.data import READERS
from effsparse_cli.study.methods import LSQS, METHODS, WHEN

MAX_TASKS = 1_000_000
MAX_NUMBER = 2**63 - 1
IMAGE_KEYS = ("size", "resize", "channels")
"""Of [data] with kind = "images" only."""
CODE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _model(value: Any, where: str) -> str:
    name = text(value, where)
    return code(name, where) if ":" in name else choose(name, (*ARCHITECTURES, "package.module:factory"), where)


def code(name: str, where: str) -> str:
    if not CODE.fullmatch(name):
        raise UsageError(f"{where}: {name!r} does not have the form package.module:function.")
    return name


def _chosen(choices: Sequence[str]) -> Callable[[Any, str], str]:
    return lambda value, where: choose(text(value, where), choices, where)


def _list(read: Callable[[Any, str], Any], value: Any, where: str) -> tuple[Any, ...]:
    """Return a list without repetitions; a single value is a list too."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise UsageError(f"{where}: the list is empty.")
    return tuple(dict.fromkeys(read(each, where) for each in values))


def _is_number_or_text(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, str | float) or (isinstance(value, int) and abs(value) <= MAX_NUMBER)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and -MAX_NUMBER <= value <= MAX_NUMBER


def _compression(value: Any, where: str) -> float:
    if not _is_number_or_text(value):
        raise UsageError(f"{where}: {shown(value)} is not a compression: use 100 or 100x.")
    place = f"{where}, {value}"
    number = float(
        parse_number(
            str(value).strip().lower().removesuffix("x"), place, "100 or 100x, or the key 'sparsities' for 99%"
        )
    )
    if number <= 1:
        raise UsageError(f"{place}: a compression must be greater than 1, for example 100 or 100x.")
    return number


def _sparsity(value: Any, where: str) -> float:
    if not _is_number_or_text(value):
        raise UsageError(f"{where}: {shown(value)} is not a sparsity: use 0.99 or 99%.")
    share = parse_share(value, where)
    if not 0 < share < 1:
        raise UsageError(f"{where}, {value}: a sparsity must be between 0 and 1, for example 0.99 or 99%.")
    return float(1 / (1 - share))


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TASKS:
        return tuple(range(value))
    whole = isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
    if not whole or not value or not all(0 <= n <= MAX_NUMBER for n in value):
        raise UsageError(
            f"{where}: {shown(value)} is neither a number of seeds, as in 3, nor a list of them, as in [0, 1]."
        )
    return tuple(dict.fromkeys(value))


def _count(value: Any, where: str, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_NUMBER:
        raise UsageError(f"{where}: {shown(value)} is not an integer of at least {least}.")
    return value


def _batch(value: Any, where: str) -> int:
    return _count(value, where, least=2)  # batch norm has no statistics for one example


def _epoch(value: Any, where: str) -> int:
    return _count(value, where, least=0)


def _number(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise UsageError(f"{where}: {shown(value)} is not a non-negative number.")
    if value > MAX_NUMBER:
        raise UsageError(f"{where}: {shown(value)} is too large.")
    return value


def _epochs(value: Any, where: str) -> list[int]:
    return [_epoch(each, where) for each in _array(value, where)]


def _array(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: {shown(value)} is not a list: use brackets, as in [{shown(value)}].")
    return value


def _plain(value: Any, where: str) -> dict[str, Any]:
    """Return a table of numbers, strings, flags, and lists of them."""
    table = check_table(value, None, where)
    for name, each in table.items():
        parts = each if isinstance(each, list) else [each]
        if not all(isinstance(part, str | bool) or _is_finite(part) for part in parts):
            raise UsageError(f"{where}, {name}: {shown(each)}: use finite numbers, strings, true or false.")
    return table


def _methods(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise UsageError(f"{where}: use a list of methods, as in methods = ['snip', 'synflow'] or [[methods]].")
    return value


LEVELS: dict[str, Reader] = {
    "compressions": lambda value, where: _list(_compression, value, where),
    "sparsities": lambda value, where: _list(_sparsity, value, where),
    "effective": flag,
    "seeds": _seeds,
}
STUDY_KEYS: dict[str, Reader] = {
    "title": text,
    "model": _model,
    "data": lambda value, where: value,
    "methods": _methods,
    **LEVELS,
    "recipe": lambda value, where: value,
    "compact": flag,
}
METHOD_KEYS: dict[str, Reader] = {
    "method": _chosen(list(METHODS)),
    "lsq": lambda value, where: _list(_chosen(LSQS), value, where),
    "when": _chosen(WHEN),
    **LEVELS,
    "options": _plain,
}
DATA_KEYS: dict[str, Reader] = {"kind": _chosen(list(READERS)), "path": text, "train": _count, "test": _count}
DATA_KEYS |= dict.fromkeys(IMAGE_KEYS, _count)
RECIPE_KEYS: dict[str, Reader] = {
    "epochs": _epoch,
    "drops": _epochs,
    "batch": _batch,
    "lr": _number,
    "momentum": _number,
    "decay": _number,
    "augment": lambda value, where: [text(each, where) for each in _array(value, where)],
    "device": text,
}
