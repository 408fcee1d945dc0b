"""What counts as kept, where the user has a say: masks of a file of their own, zeros behind masks, numbers that are
almost zero. A graph in, the same graph out with other readers and with notes on what its masks are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.layers import masked_by
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools


def apply(graph: Graph, options: LoadOptions) -> Graph:
    if not (options.zero_tol >= 0 and math.isfinite(options.zero_tol)):
        raise UsageError(f"--zero-tol {options.zero_tol:g}: it must be a number, and not a negative one")
    given: Mapping[str, Layer] = {}
    notes: list[str] = []
    if options.masks is not None:
        given, notes = masked_by(options.masks, graph)
    layers = {**graph.layers, **given}
    compared = {name: _compare(layer, options.zero_tol) for name, layer in layers.items() if layer.masked}
    notes += _worth(compared, set(given), options.zeros_are_pruned)
    if options.zero_tol and (without := [name for name, layer in layers.items() if layer.values is None]):
        notes.append(f"--zero-tol cannot be said of {', '.join(without)}: nothing is known of the numbers there")
    counted = {name: _counted(layer, options) for name, layer in layers.items()}
    changed = {name: layer for name, layer in counted.items() if layer is not graph.layers[name]}
    return replace(graph.with_layers(changed), notes=(*graph.notes, *notes))


@dataclass(frozen=True)
class Comparison:
    """A mask beside the numbers that it is over: how many it keeps and of how many, how many of those are zero, and
    how many that it leaves out are not."""

    size: int
    kept: int
    empty: int = 0
    hidden: int = 0

    @property
    def inverted(self) -> bool:
        """It keeps zeros and nothing else, and leaves out everything else."""
        return 0 < self.kept == self.empty and self.hidden > 0


def _compare(layer: Layer, tolerance: float) -> Comparison:
    kept = layer.kept()
    count = int(np.count_nonzero(kept))
    if layer.values is None:
        return Comparison(kept.size, count)
    zero = is_zero(layer.values(), tolerance)
    empty = int(np.count_nonzero(kept & zero))
    return Comparison(kept.size, count, empty, kept.size - count - (int(np.count_nonzero(zero)) - empty))


def _worth(compared: Mapping[str, Comparison], given: set[str], zeros_are_pruned: bool) -> Iterator[str]:
    """What a reader should know of the masks: whether they prune anything, were ever applied, or keep zeros."""
    inverted = [name for name, found in compared.items() if found.inverted]
    empty = sum(found.empty for name, found in compared.items() if name not in inverted)
    hidden = sum(found.hidden for name, found in compared.items() if name in given and name not in inverted)
    if inverted:
        yield f"masks that look inverted, since they keep nothing but zeros: {_some(inverted)}"
    if compared and not empty and all(found.kept == found.size for found in compared.values()):
        yield "pruned in name only: the masks keep every connection that they are over"
    if hidden:
        are = "is" if hidden == 1 else "are"
        yield (
            f"the masks were never applied to this model: {hidden:,} of the weights that they leave out {are} not "
            "zero, and the model as it is uses them"
        )
    if empty:
        weights, are = ("1 weight", "is") if empty == 1 else (f"{empty:,} weights", "are")
        them = "it" if empty == 1 else "them"
        said = "counted out" if zeros_are_pruned else f"--zeros-are-pruned counts {them} out"
        yield f"{weights} that a mask keeps {are} zero: {said}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _counted(layer: Layer, options: LoadOptions) -> Layer:
    """Without a mask a zero is pruned; behind one it is where the user says so."""
    if layer.values is None or not (options.zeros_are_pruned if layer.masked else options.zero_tol):
        return layer
    return replace(layer, kept=partial(_without_zeros, layer, options.zero_tol))


def _without_zeros(layer: Layer, tolerance: float) -> Bools:
    assert layer.values is not None
    kept, values = layer.kept(), layer.values()
    if not layer.masked and bool((kept & is_zero(values, 0.0)).any()):
        # The weight is computed from these numbers in a way that makes something of zero: they are not its size.
        return kept
    return kept & ~is_zero(values, tolerance)


def is_zero(values: NDArray[Any], tolerance: float) -> Bools:
    """Not larger than the tolerance, in real numbers; NaN never is."""
    if values.dtype.kind not in "fc" or values.dtype == np.float16:
        # Integers have no -(-128) of their own, and narrow floats would round the tolerance.
        values = values.astype(np.float32)
    bound = np.abs(np.zeros((), values.dtype)).dtype.type(tolerance)
    if float(bound) > tolerance:
        bound = np.nextafter(bound, bound.dtype.type(0))
    return np.asarray(np.abs(values) <= bound)
