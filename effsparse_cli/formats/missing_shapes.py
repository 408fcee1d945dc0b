"""Errors for inputs without a known shape. They name the inputs and, where some were found, shapes that work."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TypeVar

from effsparse_cli.errors import EffsparseError
from effsparse_cli.graph.primitives import Shape

E = TypeVar("E", bound=EffsparseError)


def missing_shapes_error(error: type[E], problem: str, inputs: Sequence[str], shapes: Mapping[str, Shape] | None) -> E:
    """Return an error about `inputs`, each described by name, known sizes and dtype; `shapes` are shapes that work."""
    listed = f"{problem} {'Its inputs are' if len(inputs) > 1 else 'Its input is'} {', '.join(inputs)}."
    if not shapes:
        return error(f"{listed} Pass the shape of each with --input-shape NAME=SHAPE.")
    example = shape_options(shapes)
    missing = error(f"{listed} Pass {'their shapes' if len(inputs) > 1 else 'its shape'}, for example: {example}")
    missing.input_shapes = dict(shapes)
    return missing


def shape_options(shapes: Mapping[str, Shape]) -> str:
    """Return the shapes as command-line options. An input without a name is the first."""
    options = (f"{name}={','.join(map(str, shape))}".removeprefix("=") for name, shape in shapes.items())
    return " ".join(f"--input-shape {shlex.quote(option)}" for option in options)


def combinations(candidates: Mapping[str, Sequence[Shape]], limit: int) -> Iterator[dict[str, Shape]]:
    """Yield up to `limit` choices of one shape per input, the likely ones first."""
    choices = (range(len(shapes)) for shapes in candidates.values())
    likely = sorted(islice(product(*choices), 100_000), key=lambda chosen: (sum(chosen), max(chosen, default=0)))
    for chosen in likely[:limit]:
        yield {name: shapes[k] for (name, shapes), k in zip(candidates.items(), chosen, strict=True)}
