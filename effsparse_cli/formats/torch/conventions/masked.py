"""Weights with masks in a file, found by the table of mask conventions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.masks.conventions import CONVENTIONS, Convention, parse
from effsparse_cli.formats.torch.conventions.tensors import FileTensors, ModelTensor, apply_masks, fits, is_binary

RENAMING = tuple(each for each in CONVENTIONS if each.renames_weight)
BESIDE = tuple(each for each in CONVENTIONS if not each.renames_weight)


def find_renamed(convention: Convention, file: FileTensors) -> Iterator[ModelTensor]:
    """Yield the weights that one convention stores under another name than the model's, with their masks."""
    masks: dict[str, list[str]] = {}
    for mask in file.tensors if convention.applied else file.free:
        for parameter in convention.find_parameters(mask):
            masks.setdefault(parameter, []).append(mask)
    weights = {name: each for name in file.free if (each := convention.find_parameter(name)) is not None}
    if not convention.applied:
        weights = {name: each for name, each in weights.items() if each in masks and each not in file.tensors}
    conflicts = _find_conflicts(convention, weights, masks, file) if weights else set()
    paths = set()
    for weight, parameter in weights.items():
        if weight in conflicts:
            continue
        if parameter in masks:
            paths.add(parameter.rpartition(".")[0])
            yield apply_masks(
                parameter, weight, masks[parameter], file, per_output=convention.per_output, applied=convention.applied
            )
        elif convention.missing and parameter not in file.tensors:
            if not file.external_masks:
                raise LoadError(f"{weight} has no mask in this file. {convention.missing}")
            yield ModelTensor(parameter, (weight,), file.tensors[weight])
    yield from _find_others(convention, paths, masks, file)


def _find_conflicts(
    convention: Convention, weights: dict[str, str], masks: dict[str, list[str]], file: FileTensors
) -> set[str]:
    """Return the weights that other tensors show to be computed by something other than masks."""
    if not convention.unless:
        return set()
    by_name = {convention.conflict_name(parameter): weight for weight, parameter in weights.items()}
    own = {*weights, *(mask for parameter in weights.values() for mask in masks.get(parameter, ()))}
    conflicts = set()
    for name in file.tensors:
        if name not in own:
            folders = [name[: dot.end()] for dot in re.finditer(r"\.", name)]
            conflicts |= {by_name[each] for each in (name, *folders) if each in by_name}
    return conflicts


def _find_others(
    convention: Convention, paths: set[str], masks: dict[str, list[str]], file: FileTensors
) -> Iterator[ModelTensor]:
    """Yield the other tensors of masked layers, under the model's names."""
    if convention.other_names is None:
        return
    stored, renamed = convention.other_names
    for name in file.free:
        fields = parse(stored, name)
        if fields is not None and fields["path"].rstrip(".") in paths and renamed.format(**fields) not in masks:
            yield ModelTensor(renamed.format(**fields), (name,), file.tensors[name])


def find_beside(file: FileTensors) -> Iterator[ModelTensor]:
    """Yield the weights that keep the model's names and have masks under names of their own."""
    masks: dict[str, dict[str, Convention]] = {}
    for mask in file.free:
        match = _find_weight(mask, file)
        if match is not None:
            weight, convention = match
            masks.setdefault(weight, {})[mask] = convention
    for weight, found in masks.items():
        per_output = any(convention.per_output for convention in found.values())
        yield apply_masks(weight, weight, [*found], file, per_output=per_output, applied=False)
        bias = f"{weight.removesuffix('weight')}bias"
        pruning = [mask for mask, convention in found.items() if convention.prunes_bias]
        if pruning and bias in file.tensors:
            values = file.tensors[pruning[0]].reshape(-1).to(file.tensors[bias].dtype)
            yield ModelTensor(bias, (bias,), file.tensors[bias].detach() * values)


def _find_weight(mask: str, file: FileTensors) -> tuple[str, Convention] | None:
    """Return the weight that a tensor masks, and the convention that says so; None if it is not a mask."""
    absent: list[str] = []
    for convention in BESIDE:
        for weight in convention.find_parameters(mask):
            if weight not in file.tensors:
                absent += [weight] if convention.certain else []
            elif convention.certain or _could_mask(mask, weight, convention, file):
                return weight, convention
    if absent:
        raise LoadError(f'mask "{mask}" has no weight: the file does not contain {absent[0]}.')
    return None


def _could_mask(mask: str, weight: str, convention: Convention, file: FileTensors) -> bool:
    tensor = file.tensors[mask]
    return fits(tuple(tensor.shape), tuple(file.tensors[weight].shape), convention.per_output) and is_binary(tensor)
