"""Decide which weights count as kept according to the load options: masks from a file, zeros under masks, and values
close to zero. Takes a graph and returns it with other readers and with notes about its masks."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.conventions import find_parameters, is_mask_name
from effsparse_cli.formats.masks.files import Mask, read_kept, read_masks
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formatting import plural
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools


def apply(graph: Graph, options: LoadOptions) -> Graph:
    """Return the graph with the layers that the options describe."""
    if not (options.zero_tol >= 0 and math.isfinite(options.zero_tol)):
        raise UsageError(f"--zero-tol {options.zero_tol:g}: use a finite number that is not negative.")
    from_file: Mapping[str, Layer] = {}
    notes: list[str] = []
    if options.masks is not None:
        from_file, notes = apply_mask_file(options.masks, graph)
    layers = {**graph.layers, **from_file}
    counts = {name: _count(layer, options.zero_tol) for name, layer in layers.items() if layer.masked}
    notes += _describe_masks(counts, set(from_file), options.zeros_are_pruned)
    if options.zero_tol and (without := [name for name, layer in layers.items() if layer.values is None]):
        notes.append(f"--zero-tol does not apply to {', '.join(without)}: their values are not known")
    new = {name: _without_zeros(layer, options) for name, layer in layers.items()}
    changed = {name: layer for name, layer in new.items() if layer is not graph.layers[name]}
    return graph.with_layers(changed).with_notes(after=notes)


@dataclass(frozen=True)
class MaskCounts:
    """Of `size` weights a mask keeps `kept`, of which `zeros` are zero; `hidden` of the others are not."""

    size: int
    kept: int
    zeros: int = 0
    hidden: int = 0

    @property
    def inverted(self) -> bool:
        """Whether all kept weights are zero, and some that are not kept are not."""
        return 0 < self.kept == self.zeros and self.hidden > 0


def _count(layer: Layer, tolerance: float) -> MaskCounts:
    kept = layer.kept()
    count = int(np.count_nonzero(kept))
    if layer.values is None:
        return MaskCounts(kept.size, count)
    zero = is_zero(layer.values(), tolerance)
    zeros = int(np.count_nonzero(kept & zero))
    return MaskCounts(kept.size, count, zeros, kept.size - count - (int(np.count_nonzero(zero)) - zeros))


def _describe_masks(counts: Mapping[str, MaskCounts], from_file: set[str], zeros_are_pruned: bool) -> Iterator[str]:
    """Yield notes on masks that look inverted, prune nothing, were never applied, or keep zeros."""
    inverted = [name for name, count in counts.items() if count.inverted]
    zeros = sum(count.zeros for name, count in counts.items() if name not in inverted)
    hidden = sum(count.hidden for name, count in counts.items() if name in from_file and name not in inverted)
    if inverted:
        yield f"masks that look inverted, because they keep only zeros: {_shorten(inverted)}"
    if counts and not zeros and all(count.kept == count.size for count in counts.values()):
        yield "the masks prune nothing: they keep every connection"
    if hidden:
        weights, verb = ("weight", "is") if hidden == 1 else ("weights", "are")
        yield (
            f"the masks were never applied to this model: {hidden:,} masked {weights} {verb} not zero, and the model "
            "itself uses them"
        )
    if zeros:
        weights, verb, them = ("1 weight", "is", "it") if zeros == 1 else (f"{zeros:,} weights", "are", "them")
        effect = "counted as pruned" if zeros_are_pruned else f"--zeros-are-pruned counts {them} as pruned"
        yield f"{weights} that a mask keeps {verb} zero: {effect}"


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _without_zeros(layer: Layer, options: LoadOptions) -> Layer:
    """Return the layer with zeros pruned. Under a mask they stay kept unless the options say otherwise."""
    if layer.values is None or not (options.zeros_are_pruned if layer.masked else options.zero_tol):
        return layer
    return replace(layer, kept=partial(_read_nonzero, layer, options.zero_tol))


def _read_nonzero(layer: Layer, tolerance: float) -> Bools:
    assert layer.values is not None
    kept, values = layer.kept(), layer.values()
    if not layer.masked and bool((kept & is_zero(values, 0.0)).any()):
        # The weight is computed from these values, and zeros become something else: a tolerance means nothing here.
        return kept
    return kept & ~is_zero(values, tolerance)


def is_zero(values: NDArray[Any], tolerance: float) -> Bools:
    """Return where the magnitude is at most the tolerance, in real numbers; NaN never is."""
    if values.dtype.kind not in "fc" or values.dtype == np.float16:
        # The magnitude of -128 is not an int8, and narrow floats would round the tolerance.
        values = values.astype(np.float32)
    bound = np.abs(np.zeros((), values.dtype)).dtype.type(tolerance)
    if float(bound) > tolerance:
        bound = np.nextafter(bound, bound.dtype.type(0))
    return np.asarray(np.abs(values) <= bound)


WRAPPERS = re.compile(r"^(?:module\.|_orig_mod\.)+")
"""Prefixes of DataParallel and torch.compile."""


def apply_mask_file(path: Path, graph: Graph) -> tuple[dict[str, Layer], list[str]]:
    """Return the layers that the file has masks for, with these masks, and notes about them."""
    masks = read_masks(path)
    by_parameter = {layer.parameter: name for name, layer in graph.layers.items() if layer.parameter}
    by_label = index_labels(graph.layers)
    unused = index_labels(graph.unused)
    matched: dict[str, str] = {}
    vectors = 0
    for name, mask in masks.items():
        labels = list(find_labels(name))
        layer = by_parameter.get(name) or (name if name in graph.layers else None)
        layer = layer or next((by_label[label] for label in labels if label in by_label), None)
        if layer is not None:
            other = matched.get(layer)
            if other is None or (is_mask_name(name) and not is_mask_name(other)):
                _check_shape(name, mask, graph.layers[layer])
                matched[layer] = name
            elif is_mask_name(name) == is_mask_name(other):
                raise UsageError(f"--masks: {path} has two masks for {layer}: {other} and {name}. Remove one.")
        elif len(mask.shape) < 2:
            vectors += 1
        elif not any(label in unused for label in labels):
            raise UsageError(_describe_unmatched(name, path, graph))
    if not matched:
        raise UsageError(f"--masks: {path} has no mask that matches a layer of this model.")
    layers = {
        layer: replace(graph.layers[layer], kept=partial(read_kept, masks[name], name), masked=True)
        for layer, name in matched.items()
    }
    notes = [f"{path.name} has masks for {len(matched)} of {plural(len(graph.layers), 'layer')}"]
    if len(matched) < len(graph.layers):
        notes[0] += "; the other layers are unchanged"
    if vectors:
        are = "mask of a bias or norm" if vectors == 1 else "masks of biases or norms"
        notes.append(f"{vectors} {are} in {path.name} ignored: these are not connections")
    return layers, notes


def find_labels(name: str) -> Iterable[str]:
    """Yield `fc1` for fc1.weight, fc1.weight_mask, fc1.mask, mask_fc1___weight and so on."""
    name = WRAPPERS.sub("", name)
    for parameter in (name, *find_parameters(name)):
        yield WRAPPERS.sub("", parameter).removesuffix(".weight")


def index_labels(names: Iterable[str]) -> dict[str, str]:
    """Return names by label; the label of one name's own parameter takes precedence over that of a convention."""
    by_label = {WRAPPERS.sub("", name).removesuffix(".weight"): name for name in names}
    for name in by_label.copy().values():
        for label in find_labels(name):
            by_label.setdefault(label, name)
    return by_label


def _check_shape(name: str, mask: Mask, layer: Layer) -> None:
    if mask.shape == layer.shape:
        return
    shapes = ["x".join(map(str, shape)) or "a scalar" for shape in (mask.shape, layer.shape)]
    hint = " Is it transposed?" if mask.shape == layer.shape[::-1] else ""
    raise UsageError(
        f'--masks: mask "{name}" has shape {shapes[0]}, but the weight of {layer.name} has shape {shapes[1]}.{hint}'
    )


def _describe_unmatched(name: str, path: Path, graph: Graph) -> str:
    label = min(find_labels(name), key=len)
    close = difflib.get_close_matches(label, graph.layers, n=3, cutoff=0.3) or list(graph.layers)[:3]
    return (
        f'--masks: {path}: mask "{name}" matches no layer. The closest layers are {", ".join(close)}. Name a mask '
        "after its layer, with or without .weight and _mask."
    )
