"""Write a state_dict as torch.nn.utils.prune would: `weight_orig` keeps the values, `weight_mask` says what is kept.
Whatever surrounds the state_dict in its file comes along, if it is plain data."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.conventions import TORCH_PRUNE
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange
from effsparse_cli.formats.writing.atomic import replacing

INSTEAD = "Write zeroed weights (without --form prune) or --masks-only"
DEEPEST = 16


def write_prune_form(source: Path, target: Path, changes: Sequence[TensorChange], key: str) -> None:
    """Write the changes as masks. A weight that has masks in the file keeps its name, and they change."""
    content = _plain_data(source)
    prefixes = ("", f"{key.rpartition('.')[2]}.")
    for holder in _dictionaries(content, DEEPEST):
        for prefix in prefixes:
            if all(isinstance(holder.get(prefix + change.name), torch.Tensor) for change in changes):
                _change(holder, {prefix + change.name: change for change in changes})
                with replacing(target) as temporary:
                    torch.save(content, temporary)
                return
    raise UsageError(f"{source} stores its weights where masks cannot be added. {INSTEAD}")


def _plain_data(source: Path) -> Any:
    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(f"{source} contains objects of custom classes next to its weights. {INSTEAD}") from error


def _dictionaries(content: Any, depth: int) -> Iterator[MutableMapping[Any, Any]]:
    if isinstance(content, MutableMapping):
        yield content
        for value in list(content.values()) if depth else ():
            yield from _dictionaries(value, depth - 1)


def _change(holder: MutableMapping[Any, Any], changes: Mapping[str, TensorChange]) -> None:
    """Make the changes, keeping the order of the names."""
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
