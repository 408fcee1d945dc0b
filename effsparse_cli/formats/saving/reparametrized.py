"""A state_dict as torch.nn.utils.prune would write it: `weight_orig` has the numbers as they were, `weight_mask` what
is kept of them. Whatever stands around the state_dict in its file comes along, if it is plain data."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.conventions import TORCH_PRUNE
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.saving.atomic import replacing
from effsparse_cli.formats.saving.changes import Change, find_changes
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors
from effsparse_cli.graph.primitives import Bools

INSTEAD = "Write zeroed weights (without --form prune) or --masks-only"
DEEPEST = 16


def write_with_masks(source: Path, target: Path, kept: Mapping[str, Bools], options: LoadOptions) -> None:
    """`kept` by layer name. A weight that has masks in the file keeps its name, and they change."""
    changes = find_changes(source, read_tensors(open_pickled(source), options.key), kept, options)
    content = _plain_data(source)
    prefixes = ("", f"{options.key.rpartition('.')[2]}.")
    for holder in _dictionaries(content, DEEPEST):
        for prefix in prefixes:
            if all(isinstance(holder.get(prefix + change.name), torch.Tensor) for change in changes):
                _change(holder, {prefix + change.name: change for change in changes})
                with replacing(target) as temporary:
                    torch.save(content, temporary)
                return
    raise UsageError(f"{source} has its weights in a place where no masks can be added. {INSTEAD}")


def _plain_data(source: Path) -> Any:
    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(f"{source} holds objects of code that is not torch's beside its weights. {INSTEAD}") from error


def _dictionaries(content: Any, depth: int) -> Iterator[MutableMapping[Any, Any]]:
    if isinstance(content, MutableMapping):
        yield content
        for value in list(content.values()) if depth else ():
            yield from _dictionaries(value, depth - 1)


def _change(holder: MutableMapping[Any, Any], changes: Mapping[str, Change]) -> None:
    """In the order that the names had."""
    before = dict(holder)
    holder.clear()
    for name, value in before.items():
        change = changes.get(name)
        if change is None or (not change.is_mask and change.masks):
            holder[name] = value
        elif change.is_mask:
            holder[name] = change.kept.to(value.dtype)
        else:
            holder[TORCH_PRUNE.weight_name(name)] = value
            holder[TORCH_PRUNE.mask_name(name)] = change.kept.to(value.dtype)
