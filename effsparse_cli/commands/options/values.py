"""Option values that need more than a type: shapes, named dimensions, lists of names."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.errors import UsageError


def input_shapes(values: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """ "1,3,32,32" or "NAME=1,3,32,32", also with x for the commas; "" names the first input."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values or ():
        name, _, sizes = value.rpartition("=")
        if name in shapes:
            raise UsageError(f"--input-shape is given twice for {f'input {name!r}' if name else 'the first input'}.")
        parts = sizes.split("," if "," in sizes else "x")
        shapes[name] = tuple(_size(part, f"--input-shape {value}", "1,3,32,32 or NAME=1,3,32,32") for part in parts)
    return shapes


def dimensions(values: Sequence[str] | None) -> dict[str, int]:
    """ "batch=1,seq=8": sizes of dimensions that the model leaves open, by name."""
    found: dict[str, int] = {}
    for pair in names(values):
        name, equals, size = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--dim {pair}: write it as NAME=SIZE, for example batch=1,seq=8.")
        found[name.strip()] = _size(size, f"--dim {pair}", "batch=1,seq=8")
    return found


def pairs(values: Sequence[str] | None) -> dict[str, str]:
    """ "KEY=VALUE", the value as it is written."""
    found: dict[str, str] = {}
    for pair in values or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--arch-arg {pair}: write it as KEY=VALUE, for example num_classes=10.")
        found[name.strip()] = value
    return found


def names(values: Sequence[str] | None) -> tuple[str, ...]:
    """Comma-separated, and the option may be repeated."""
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def _size(text: str, where: str, example: str) -> int:
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size < 1:
        problem = f"{text.strip()!r} is not a size" if text.strip() else "a size is missing"
        raise UsageError(f"{where}: {problem}. Sizes are whole numbers from 1, as in {example}.")
    return size
