"""Match the masks of a mask file to the layers of a graph: by the key that the weight has in a state_dict, by the name
of the layer, or by the name that a pruning library gives to a mask."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.conventions import find_parameters, is_mask_name
from effsparse_cli.formats.masks.files import Mask, read_kept, read_masks
from effsparse_cli.graph.graph import Graph, Layer

WRAPPERS = re.compile(r"^(?:module\.|_orig_mod\.)+")
"""Prefixes of DataParallel and torch.compile."""


def apply_mask_file(path: Path, graph: Graph) -> tuple[dict[str, Layer], list[str]]:
    """Return the layers that the file has masks for, with these masks, and notes about them."""
    masks = read_masks(path)
    by_parameter = {layer.parameter: name for name, layer in graph.layers.items() if layer.parameter}
    by_label = _label(graph.layers)
    unused = _label(graph.unused)
    matched: dict[str, str] = {}
    vectors = 0
    for name, mask in masks.items():
        labels = list(_find_labels(name))
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
    notes = [f"{path.name} has masks for {len(matched)} of {len(graph.layers)} layers"]
    if len(matched) < len(graph.layers):
        notes[0] += "; the other layers are unchanged"
    if vectors:
        notes.append(f"{vectors} masks of biases or norms in {path.name} are ignored: these are not connections")
    return layers, notes


def _find_labels(name: str) -> Iterable[str]:
    """Yield `fc1` for fc1.weight, fc1.weight_mask, fc1.mask, mask_fc1___weight and so on."""
    name = WRAPPERS.sub("", name)
    for parameter in (name, *find_parameters(name)):
        yield WRAPPERS.sub("", parameter).removesuffix(".weight")


def _label(names: Iterable[str]) -> dict[str, str]:
    """Return names by label; the label of one name's own parameter takes precedence over that of a convention."""
    by_label = {WRAPPERS.sub("", name).removesuffix(".weight"): name for name in names}
    for name in by_label.copy().values():
        for label in _find_labels(name):
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
    label = min(_find_labels(name), key=len)
    close = difflib.get_close_matches(label, graph.layers, n=3, cutoff=0.3) or list(graph.layers)[:3]
    return (
        f'--masks: {path}: mask "{name}" matches no layer. The closest layers are {", ".join(close)}. Name a mask '
        "after its layer, with or without .weight and _mask."
    )
