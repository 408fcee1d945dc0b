"""A file's tensors under the names that a pruning library gave them in, those of the model out, with what reads their
masks and numbers. Nothing is densified here, and nothing is read but the masks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions import (
    beside,
    compressed,
    layouts,
    parametrized,
    pruned,
    quantised,
    wrapped,
)
from effsparse_cli.formats.torch.conventions.found import File, Found
from effsparse_cli.formats.torch.values import nonzero

CONVENTIONS: tuple[Callable[[File], Iterable[Found]], ...] = (
    pruned.find,
    parametrized.find,
    wrapped.find,
    beside.find,
    compressed.find,
    layouts.find,
    quantised.find,
)


def resolve(raw: Checkpoint, wanted: Collection[str] | None = None, *, masks_apart: bool = False) -> Checkpoint:
    """`wanted` are the names that the module itself has: those are left as they are. Given as a mapping to tensors, it
    also tells the shapes of flattened weights. `masks_apart`: masks are given in another file, so that one which is
    missing here is no mistake."""
    shapes = {name: tuple(t.shape) for name, t in wanted.items()} if isinstance(wanted, Mapping) else {}
    left = dict(raw.tensors)
    found: dict[str, Found] = {}
    for convention in CONVENTIONS:
        free = tuple(name for name in left if name not in (wanted or ()))
        for one in convention(File(dict(left), free, shapes, masks_apart)):
            if one.name in found or (one.name in left and one.name not in one.spent):
                raise LoadError(f"the file holds {one.name} twice: as itself, and as {one.spent[0]}")
            found[one.name] = one
            for name in one.spent:
                left.pop(name, None)
    tensors, values = {}, {name: one.values for name, one in found.items() if one.values is not None}
    for name, tensor in _in_order(raw, left, found):
        tensors[name], read = layouts.plain(name, tensor)
        values |= {name: read} if read is not None else {}
    masks = {name: one.kept for name, one in found.items() if one.kept is not None}
    notes = (*raw.notes, *_never_applied([one for one in found.values() if one.beside]))
    return replace(raw, tensors=tensors, masks={**raw.masks, **masks}, values={**raw.values, **values}, notes=notes)


def _in_order(
    raw: Checkpoint, left: Mapping[str, torch.Tensor], found: Mapping[str, Found]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor where the first of its parts stands in the file."""
    made_of = {one.spent[0]: one for one in found.values()}
    for name, tensor in raw.tensors.items():
        if name in made_of:
            yield made_of[name].name, made_of[name].tensor
        elif name in left:
            yield name, tensor


def _never_applied(masked: list[Found]) -> Iterator[str]:
    """A stored weight that its mask leaves out and that is not zero is used by whoever forgets to multiply."""
    hidden = 0
    for one in masked:
        if one.kept is not None and one.tensor.layout == torch.strided and not one.tensor.is_quantized:
            hidden += int((~one.kept() & nonzero(one.tensor)).sum())
    if hidden:
        yield (
            f"the masks in the file were never applied to its weights: {hidden:,} of those that they leave out are not "
            "zero. They count as pruned, as in a model that multiplies by its masks"
        )
