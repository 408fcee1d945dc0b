"""Map the tensors of a Hugging Face file to the parameters of the model that transformers builds, by the library's own
table of renamings and conversions. Afterwards the model uses the names of the file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.arch.huggingface.assembled import assemble
from effsparse_cli.formats.torch.arch.huggingface.tables import make_tables
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.tracing.trace import FILE_NAMES, file_names, stored_tensors


@dataclass
class Conversion:
    """A converter of the library, and the names of the file that match each of its patterns."""

    converter: Any
    members: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class WeightMapping:
    """`renamed` has the name in the file of each parameter that is one tensor there; `converted` has the conversions of
    the others, by the first parameter that each makes."""

    renamed: dict[str, str] = field(default_factory=dict)
    converted: dict[str, Conversion] = field(default_factory=dict)

    def used(self) -> set[str]:
        return {*self.renamed.values(), *(name for each in self.converted.values() for _, name in each.members)}


def use_file_names(model: Any, raw: Checkpoint, external_masks: bool = False) -> None:
    """Give the parameters of the model the names of the file. A parameter that is made from several tensors or from a
    part of one is replaced by those tensors."""
    mapping = map_weights(model, raw.tensors)
    used = mapping.used()
    tensors = raw.tensors
    if len(used) < len(tensors):
        # The library does not know the names of masks and compressed weights.
        known = {name: tensor for name, tensor in tensors.items() if name in used}
        tensors = resolve(raw, known, external_masks=external_masks).tensors
        mapping = map_weights(model, tensors)
    _rename(model, mapping.renamed)
    for name, conversion in mapping.converted.items():
        _convert(model, name, conversion, tensors)
    make_tables(model, tensors)


def map_weights(model: Any, names: Collection[str]) -> WeightMapping:
    """Return the mapping, key by key, as the library itself loads a file."""
    known, mapping = stored_tensors(model), WeightMapping()
    rename, converters = _library(model)
    for name in _sorted(names):
        new, pattern = rename(name, known)
        if new not in known:
            continue
        if pattern is None:
            mapping.renamed.setdefault(new, name)
        else:
            conversion = mapping.converted.setdefault(new, Conversion(converters[pattern]))
            conversion.members.append((pattern, name))
    return mapping


def _library(model: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return a function that renames a key, and the converters by pattern. Before version 5 there are only prefixes."""
    prefix = model.base_model_prefix
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key
    except ImportError:
        return lambda name, known: (_match_prefix(name, f"{prefix}.", known), None), {}
    table = get_model_conversion_mapping(model)
    renamings = [each for each in table if isinstance(each, WeightRenaming)]
    converters = [each for each in table if isinstance(each, WeightConverter)]

    def rename(name: str, known: Mapping[str, torch.Tensor]) -> tuple[str, str | None]:
        new, pattern = rename_source_key(name, renamings, converters, prefix, known)
        if new not in known and name in known:
            return name, None
        return _match_prefix(new, f"{prefix}.", known), pattern

    return rename, {pattern: each for each in converters for pattern in each.source_patterns}


def _sorted(names: Collection[str]) -> list[str]:
    """Return the names in the order in which the library stacks tensors."""
    try:
        from transformers.core_model_loading import dot_natural_key
    except ImportError:
        return list(names)
    return sorted(names, key=dot_natural_key)


def _match_prefix(name: str, prefix: str, known: Mapping[str, object]) -> str:
    """Add or remove the prefix of the base model: a file may be saved with or without a head."""
    return next((n for n in (name, prefix + name, name.removeprefix(prefix)) if n in known), name)


def _rename(model: nn.Module, renamed: Mapping[str, str]) -> None:
    taken = set(renamed.values())
    # A tensor that is not in the file must not be taken for another one of the same name there.
    absent = {name: f"{name} (of the model)" for name in stored_tensors(model) if name in taken and name not in renamed}
    model.__dict__[FILE_NAMES] = {**file_names(model), **renamed, **absent}


def _convert(model: Any, name: str, conversion: Conversion, tensors: Mapping[str, torch.Tensor]) -> None:
    members = {key: tensors[key].shape for _, key in conversion.members}
    patterns = [pattern for pattern, _ in conversion.members]

    def convert(given: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        converter = deepcopy(conversion.converter)
        for pattern, tensor in zip(patterns, given, strict=True):
            converter.collected_tensors[pattern].append(tensor)
        made = converter.convert(name, model=model, config=model.config)
        return {target: each[0] if isinstance(each, list) else each for target, each in made.items()}

    try:
        assemble(model, members, convert)
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise LoadError(
            f"the tensors {', '.join(list(members)[:3])}{' ...' if len(members) > 3 else ''} cannot be converted to "
            f"{name}: {reason}. Check that config.json belongs to this file."
        ) from error
