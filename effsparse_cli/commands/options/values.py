"""Parse option values that are more than one number or text: shapes, named dimensions, lists of names."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.errors import UsageError


def parse_shapes(values: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Parse "1,3,32,32" or "NAME=1,3,32,32", also with x instead of commas. The name of the first input is ""."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values or ():
        name, _, sizes = value.rpartition("=")
        if name in shapes:
            raise UsageError(f"--input-shape is given twice for {f'input {name!r}' if name else 'the first input'}.")
        parts = sizes.split("," if "," in sizes else "x")
        where, example = f"--input-shape {value}", "1,3,32,32 or NAME=1,3,32,32"
        shapes[name] = tuple(_parse_size(part, where, example) for part in parts)
    return shapes


def parse_dimensions(values: Sequence[str] | None) -> dict[str, int]:
    """Parse the sizes of open dimensions, as in "batch=1,seq=8"."""
    dimensions: dict[str, int] = {}
    for pair in split_names(values):
        name, equals, size = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--dim {pair}: write it as NAME=SIZE, for example batch=1,seq=8.")
        dimensions[name.strip()] = _parse_size(size, f"--dim {pair}", "batch=1,seq=8")
    return dimensions


def parse_pairs(values: Sequence[str] | None) -> dict[str, str]:
    """Parse "KEY=VALUE" pairs, keeping values as text."""
    pairs: dict[str, str] = {}
    for pair in values or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--arch-arg {pair}: write it as KEY=VALUE, for example num_classes=10.")
        pairs[name.strip()] = value
    return pairs


def split_names(values: Sequence[str] | None) -> tuple[str, ...]:
    """Split comma-separated names of a repeatable option."""
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def _parse_size(text: str, where: str, example: str) -> int:
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size < 1:
        problem = f"{text.strip()!r} is not a size" if text.strip() else "a size is missing"
        raise UsageError(f"{where}: {problem}. Sizes are positive integers, as in {example}.")
    return size
