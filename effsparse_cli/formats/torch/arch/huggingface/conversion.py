"""Map the tensors of a Hugging Face file to the parameters of the model that transformers builds, by the library's own
table of renamings and conversions. Afterwards the model uses the names of the file. A parameter that the file stores in
another form is computed from the tensors of the file, so that every element keeps its position there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.tensors import format_shape
from effsparse_cli.formats.torch.tracing.trace import FILE_NAMES, file_names, stored_tensors

Convert = Callable[[Sequence[torch.Tensor]], Mapping[str, torch.Tensor]]
HOLDER = "tensors_of_the_file"
COMPUTED = "_computed_parameters"


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


@dataclass(frozen=True)
class ComputedParameter:
    """Computes a parameter from the tensors that `holder` has under `names`."""

    make: Callable[..., Any]
    holder: nn.Module
    names: tuple[str, ...]

    def __call__(self) -> Any:
        return self.make(*(self.holder._parameters[name] for name in self.names))


def assemble(model: nn.Module, members: Mapping[str, torch.Size], convert: Convert) -> None:
    """Replace parameters by the tensors `members` of the file and by what `convert` makes of them. Raise ValueError if
    the result does not have the shape of the parameter."""
    blank = [torch.empty(shape, device="meta") for shape in members.values()]
    recorded = {name: _record(convert, blank, name) for name in convert(blank)}
    for name, (_, shape) in recorded.items():
        wanted = model.get_parameter(name).shape
        if shape != wanted:
            raise ValueError(
                f"{name} has shape {format_shape(wanted)} in the model, but the file gives {format_shape(shape)}"
            )
    names = tuple(_hold(model, name, tensor) for name, tensor in zip(members, blank, strict=True))
    for name, (make, _) in recorded.items():
        path, _, own = name.rpartition(".")
        _add_property(model.get_submodule(path), own, ComputedParameter(make, model.get_submodule(HOLDER), names))


def _record(convert: Convert, blank: list[torch.Tensor], name: str) -> tuple[fx.GraphModule, torch.Size]:
    """Record a conversion as operators: the functions of the library are not differentiable."""
    made: fx.GraphModule = make_fx(lambda *tensors: convert(tensors)[name])(*blank)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made, made(*blank).shape


def _hold(model: nn.Module, name: str, tensor: torch.Tensor) -> str:
    if HOLDER not in model._modules:
        model.add_module(HOLDER, nn.Module())
    holder = model.get_submodule(HOLDER)
    own = str(len(holder._parameters))
    holder.register_parameter(own, nn.Parameter(tensor))
    model.__dict__.setdefault(FILE_NAMES, {})[f"{HOLDER}.{own}"] = name
    return own


def _add_property(module: nn.Module, name: str, parameter: ComputedParameter) -> None:
    """Replace a parameter by a property, in a class of the same name, as torch's parametrizations do."""
    del module._parameters[name]
    module.__dict__[COMPUTED] = {**module.__dict__.get(COMPUTED, {}), name: parameter}
    original = type(module)
    computed = property(lambda self: self.__dict__[COMPUTED][name]())
    body = {name: computed, "__module__": original.__module__, "__qualname__": original.__qualname__}
    module.__class__ = type(original.__name__, (original,), body)


def make_tables(model: Any, stored: Collection[str]) -> None:
    """Fill parameters that the library does not save and the file lacks, unless they depend on random numbers."""
    left_out = [*(getattr(model, "_keys_to_ignore_on_load_missing", None) or ())]
    left_out += getattr(model, "_keys_to_ignore_on_save", None) or ()
    names = file_names(model)
    for name, parameter in list(model.named_parameters()):
        if names.get(name, name) in stored or not any(re.search(pattern, name) for pattern in left_out):
            continue
        path, _, own = name.rpartition(".")
        module = model.get_submodule(path)
        first, second = (_initial(model, module, own, parameter, seed) for seed in (0, 1))
        if torch.equal(first, second):
            del module._parameters[own]
            module.register_buffer(own, first, persistent=False)


def _initial(model: Any, module: nn.Module, own: str, parameter: nn.Parameter, seed: int) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        filled = torch.rand(parameter.shape).to(parameter.dtype)
        module._parameters[own] = nn.Parameter(filled, requires_grad=False)
        try:
            model._init_weights(module)
            return module._parameters[own].detach().clone()  # type: ignore[union-attr]
        finally:
            module._parameters[own] = parameter
