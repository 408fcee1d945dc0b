"""The tensors of a Hugging Face file against the parameters of the model that transformers builds: which go into which,
by the library's own table of renamings and conversions. Afterwards the model speaks the file's names."""

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
    """One of the library's converters, and for each of its patterns the names of the file that match."""

    converter: Any
    members: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Plan:
    """`renamed` has the file's name for each of the model's that one tensor fills; `converted` what makes the others,
    by the first parameter that is made."""

    renamed: dict[str, str] = field(default_factory=dict)
    converted: dict[str, Conversion] = field(default_factory=dict)

    def used(self) -> set[str]:
        return {*self.renamed.values(), *(name for each in self.converted.values() for _, name in each.members)}


def name_as_in_file(model: Any, raw: Checkpoint, external_masks: bool = False) -> None:
    """Give the model the names of the file's tensors, and where a parameter is made from several or from parts of one,
    those tensors instead of it."""
    plan = find_plan(model, raw.tensors)
    used = plan.used()
    tensors = raw.tensors
    if len(used) < len(tensors):
        # Masks and compressed forms of a weight are known by their names, which the library does not expect.
        known = {name: tensor for name, tensor in tensors.items() if name in used}
        tensors = resolve(raw, known, external_masks=external_masks).tensors
        plan = find_plan(model, tensors)
    _rename(model, plan.renamed)
    for name, conversion in plan.converted.items():
        _convert(model, name, conversion, tensors)
    make_tables(model, tensors)


def find_plan(model: Any, names: Collection[str]) -> Plan:
    """As the library's own loading does it, key by key."""
    known, plan = stored_tensors(model), Plan()
    rename, converters = _library(model)
    for name in _sorted(names):
        new, pattern = rename(name, known)
        if new not in known:
            continue
        if pattern is None:
            plan.renamed.setdefault(new, name)
        else:
            conversion = plan.converted.setdefault(new, Conversion(converters[pattern]))
            conversion.members.append((pattern, name))
    return plan


def _library(model: Any) -> tuple[Any, Mapping[str, Any]]:
    """What renames a key, and the converters by their patterns; before version 5 there are only prefixes."""
    prefix = model.base_model_prefix
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key
    except ImportError:
        return lambda name, known: (_body(name, f"{prefix}.", known), None), {}
    table = get_model_conversion_mapping(model)
    renamings = [each for each in table if isinstance(each, WeightRenaming)]
    converters = [each for each in table if isinstance(each, WeightConverter)]

    def rename(name: str, known: Mapping[str, torch.Tensor]) -> tuple[str, str | None]:
        new, pattern = rename_source_key(name, renamings, converters, prefix, known)
        if new not in known and name in known:
            return name, None
        return _body(new, f"{prefix}.", known), pattern

    return rename, {pattern: each for each in converters for pattern in each.source_patterns}


def _sorted(names: Collection[str]) -> list[str]:
    """In the order in which the library stacks tensors."""
    try:
        from transformers.core_model_loading import dot_natural_key
    except ImportError:
        return list(names)
    return sorted(names, key=dot_natural_key)


def _body(name: str, prefix: str, known: Mapping[str, object]) -> str:
    """A file of a model's body lacks the prefix that it has below a head, and the other way round."""
    return next((n for n in (name, prefix + name, name.removeprefix(prefix)) if n in known), name)


def _rename(model: nn.Module, renamed: Mapping[str, str]) -> None:
    taken = set(renamed.values())
    # A tensor that the file lacks must not pass for another one that has its name there.
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
            f"the file's tensors {', '.join(list(members)[:3])}{' ...' if len(members) > 3 else ''} do not make the "
            f"model's {name}: {reason}. Does config.json belong to this file?"
        ) from error
