"""Errors that ask for the shapes of inputs: the inputs enter, and shapes that the model takes, if any were found; an
error that names both leaves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TypeVar

from effsparse_cli.errors import EffsparseError
from effsparse_cli.graph.primitives import Shape

E = TypeVar("E", bound=EffsparseError)


def ask_for_shapes(error: type[E], problem: str, inputs: Sequence[str], shapes: Mapping[str, Shape] | None) -> E:
    """`inputs` are described by name, known sizes and type; `shapes` are None if none were found that work."""
    listed = f"{problem} {'Its inputs are' if len(inputs) > 1 else 'Its input is'} {', '.join(inputs)}."
    if not shapes:
        return error(f"{listed} Give the shape of each with --input-shape NAME=SHAPE.")
    example = shape_options(shapes)
    found = error(f"{listed} Give {'their shapes' if len(inputs) > 1 else 'its shape'}, for example: {example}")
    found.input_shapes = dict(shapes)
    return found


def shape_options(shapes: Mapping[str, Shape]) -> str:
    """As on the command line. An input without a name is the first."""
    return " ".join(f"--input-shape {shlex.quote(_option(name, shape))}" for name, shape in shapes.items())


def _option(name: str, shape: Shape) -> str:
    return f"{name}={','.join(map(str, shape))}".removeprefix("=")


def combinations(candidates: Mapping[str, Sequence[Shape]], most: int) -> Iterator[dict[str, Shape]]:
    """Yield one shape for each input, the likely ones first, `most` times at most."""
    places = (range(len(shapes)) for shapes in candidates.values())
    likely = sorted(islice(product(*places), 100_000), key=lambda chosen: (sum(chosen), max(chosen, default=0)))
    for chosen in likely[:most]:
        yield {name: shapes[k] for (name, shapes), k in zip(candidates.items(), chosen, strict=True)}
