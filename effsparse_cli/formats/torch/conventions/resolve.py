"""Turn the tensors of a file, under the names that a pruning library saved them with, into tensors of the model with
readers for their masks and values. Only masks are read here, and nothing is made dense."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.layouts import find_compressed, find_quantised, find_sparse, to_dense
from effsparse_cli.formats.torch.conventions.tensors import (
    RENAMING,
    FileTensors,
    ModelTensor,
    find_beside,
    find_renamed,
)
from effsparse_cli.formats.torch.tensors import nonzero
from effsparse_cli.graph.primitives import Shape

FINDERS: tuple[Callable[[FileTensors], Iterable[ModelTensor]], ...] = (
    *(partial(find_renamed, convention) for convention in RENAMING),
    find_beside,
    find_compressed,
    find_sparse,
    find_quantised,
)


def resolve(raw: Checkpoint, wanted: Collection[str] | None = None, *, external_masks: bool = False) -> Checkpoint:
    """Return the checkpoint under the model's names. `wanted` are the model's own names, which stay as they are; as a
    mapping to tensors it also gives the shapes of flattened weights. With `external_masks`, weights may lack masks."""
    shapes = {name: tuple(t.shape) for name, t in wanted.items()} if isinstance(wanted, Mapping) else {}
    found: dict[str, ModelTensor] = {}
    left = set(raw.tensors)
    for each in find_model_tensors(raw.tensors, shapes, wanted or (), external_masks=external_masks):
        if each.name in found or (each.name in left and each.name not in each.sources):
            raise LoadError(f"the file contains {each.name} twice: under that name and as {each.sources[0]}.")
        found[each.name] = each
        left -= set(each.sources)
    tensors, values = {}, {name: each.values for name, each in found.items() if each.values is not None}
    for name, tensor in _in_file_order(raw, left, found):
        tensors[name], read = to_dense(name, tensor)
        values |= {name: read} if read is not None else {}
    masks = {name: each.kept for name, each in found.items() if each.kept is not None}
    notes = (*raw.notes, *_note_unapplied([each for each in found.values() if not each.applied]))
    return replace(raw, tensors=tensors, masks={**raw.masks, **masks}, values={**raw.values, **values}, notes=notes)


def find_model_tensors(
    tensors: Mapping[str, torch.Tensor],
    shapes: Mapping[str, Shape],
    wanted: Collection[str] = (),
    *,
    external_masks: bool = False,
) -> Iterator[ModelTensor]:
    """Yield what the conventions find; the tensors that one uses are not shown to the next."""
    left = dict(tensors)
    for find in FINDERS:
        free = tuple(name for name in left if name not in wanted)
        for each in find(FileTensors(dict(left), free, shapes, external_masks)):
            for name in each.sources:
                left.pop(name, None)
            yield each


def _in_file_order(
    raw: Checkpoint, left: Collection[str], found: Mapping[str, ModelTensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor at the position of its first source."""
    by_source = {each.sources[0]: each for each in found.values()}
    for name, tensor in raw.tensors.items():
        if name in by_source:
            yield by_source[name].name, by_source[name].tensor
        elif name in left:
            yield name, tensor


def _note_unapplied(masked: list[ModelTensor]) -> Iterator[str]:
    """Note masked weights that are not zero in the file: code that does not multiply by the masks would use them."""
    hidden = 0
    for each in masked:
        if each.kept is not None and each.tensor.layout == torch.strided and not each.tensor.is_quantized:
            hidden += int((~each.kept() & nonzero(each.tensor)).sum())
    if hidden:
        yield (
            f"the masks in the file were never applied to its weights: {hidden:,} masked weights are not zero. They "
            "count as pruned, as in a model that multiplies by its masks"
        )
