"""Masks of a file apart over a graph's layers: which mask is of which layer, by the weight's key in a state_dict, the
layer's name, or names as libraries write them."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.files import Mask, as_kept, read_masks
from effsparse_cli.graph.graph import Graph, Layer

OPENLTH = re.compile(r"^mask_(?=.*___)")
REWRITTEN = (
    (re.compile(r"^(?:module\.|_orig_mod\.)+"), ""),
    (re.compile(r"[._](?:mask|orig)$"), ""),
    (re.compile(r"\.__(\w+)_mma$"), r".\1"),
    (re.compile(r"(^|\.)parametrizations\.(\w+)(?:\.\d+|\.original)?$"), r"\1\2"),
    (re.compile(r"\.weight$"), ""),
)
"""What pruning libraries add to a weight's name, from the outside in."""


def masked_by(path: Path, graph: Graph) -> tuple[dict[str, Layer], list[str]]:
    """The layers that the file has a mask for, kept by it; and what to say about that."""
    masks = read_masks(path)
    by_plain = {plain(name): name for name in graph.layers}
    by_parameter = {layer.parameter: name for name, layer in graph.layers.items() if layer.parameter}
    unused = {plain(name) for name in graph.unused}
    found: dict[str, str] = {}
    vectors = 0
    for name, mask in masks.items():
        layer = by_parameter.get(name) or (name if name in graph.layers else by_plain.get(plain(name)))
        if layer is not None:
            other = found.get(layer)
            if other is None or (_says_mask(name) and not _says_mask(other)):
                _check_shape(name, mask, graph.layers[layer])
                found[layer] = name
            elif _says_mask(name) == _says_mask(other):
                raise UsageError(f"--masks: {path} has two masks for {layer}: {other} and {name}")
        elif len(mask.shape) < 2:
            vectors += 1
        elif plain(name) not in unused:
            raise UsageError(_unmatched(name, path, graph))
    if not found:
        raise UsageError(f"--masks: none of the masks in {path} is of a layer of this model")
    layers = {
        layer: replace(graph.layers[layer], kept=partial(as_kept, masks[name], name), masked=True)
        for layer, name in found.items()
    }
    notes = [f"masks of {path.name}: {len(found)} of {len(graph.layers)} layers have one"]
    if len(found) < len(graph.layers):
        notes[0] += "; the others keep what they had"
    if vectors:
        notes.append(f"masks of biases and norms are no connections, and are left out: {vectors} in {path.name}")
    return layers, notes


def plain(name: str) -> str:
    """`fc1` for fc1.weight, fc1.weight_mask, fc1.mask, mask_fc1___weight and the like."""
    if OPENLTH.match(name):
        name = OPENLTH.sub("", name).replace("___", ".")
    for pattern, instead in REWRITTEN:
        name = pattern.sub(instead, name)
    return name


def _says_mask(name: str) -> bool:
    """A state_dict may be given too, which has the weight beside its mask."""
    return name.endswith("mask") or OPENLTH.match(name) is not None


def _check_shape(name: str, mask: Mask, layer: Layer) -> None:
    if mask.shape == layer.shape:
        return
    shapes = ["x".join(map(str, shape)) or "a number" for shape in (mask.shape, layer.shape)]
    turned = " It seems to be transposed." if mask.shape == layer.shape[::-1] else ""
    raise UsageError(f"--masks: the mask {name} is {shapes[0]}, but the weight of {layer.name} is {shapes[1]}.{turned}")


def _unmatched(name: str, path: Path, graph: Graph) -> str:
    close = difflib.get_close_matches(plain(name), graph.layers, n=3, cutoff=0.3) or list(graph.layers)[:3]
    return (
        f"--masks: {name} in {path} is of no layer of this model. The closest names are {', '.join(close)}; a mask is "
        "named as its layer, with or without .weight and _mask."
    )
