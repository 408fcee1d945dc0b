"""Masks for live modules: take them from a mapping, a result or a file, match them to parameters, and apply them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from effsparse_cli.errors import EffsparseError, UsageError
from effsparse_cli.formats.masks.conventions import CONVENTIONS, is_mask_name
from effsparse_cli.formats.masks.files import Mask, read_kept, read_masks
from effsparse_cli.formats.masks.kept import find_labels, index_labels
from effsparse_cli.formats.torch.conventions.tensors import fits
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.training.parameters import (
    LiveParameter,
    check_changeable,
    list_parameters,
    without_wrappers,
    zero_pruned,
)

MaskMapping: TypeAlias = Mapping[str, torch.Tensor | NDArray[Any]]


class HasMasks(Protocol):
    @property
    def masks(self) -> Mapping[str, Any]: ...


MaskSource: TypeAlias = MaskMapping | HasMasks | str | os.PathLike[str]
PrunedWeights: TypeAlias = list[tuple[LiveParameter, torch.Tensor]]
"""Parameters, each with a boolean tensor that is True where it is pruned."""


def apply_masks(model: nn.Module, masks: MaskSource) -> None:
    """Set the pruned weights of a live module to zero once, in place.

    `masks` is a mapping of names to boolean tensors or arrays (True or 1 is kept), the result of `prune`, or the path
    of a mask file of any supported convention. Names are those of parameters in the state_dict (`fc.weight`,
    `fc.weight_orig`), of layers (`fc`) or of masks (`fc.weight_mask`), with or without the prefixes of
    DistributedDataParallel and torch.compile. If some names are those of masks, the others are ignored: a state_dict
    with masks can be passed as it is. Masks that the model stores (torch.nn.utils.prune, parametrizations) are
    replaced. Nothing is changed if a mask matches no parameter or has the wrong shape.
    """
    for parameter, pruned in resolve_masks(model, masks):
        for place in parameter.places:
            zero_pruned(place, pruned)


def resolve_masks(model: nn.Module, source: MaskSource) -> PrunedWeights:
    """Match masks to the parameters of a module. Nothing is changed."""
    masks = _read(source)
    parameters = list_parameters(model)
    by_label = index_labels(parameters)
    if any(map(is_mask_name, masks)):
        masks = {name: mask for name, mask in masks.items() if is_mask_name(name)}
    found: dict[int, tuple[LiveParameter, torch.Tensor, str]] = {}
    for name, mask in masks.items():
        parameter = _match(name, parameters, by_label)
        check_changeable(parameter)
        pruned = _read_pruned(name, mask, parameter)
        _, other, other_name = found.setdefault(id(parameter.tensor), (parameter, pruned, name))
        if not torch.equal(other, pruned):
            raise UsageError(f"masks {other_name} and {name} are both for {parameter.name}, and differ. Remove one.")
    return [(parameter, pruned) for parameter, pruned, _ in found.values()]


def _read(source: Any) -> dict[str, Mask]:
    if isinstance(source, str | os.PathLike):
        try:
            return read_masks(Path(source))
        except EffsparseError as error:
            raise type(error)(_without_option(error)) from error
    masks = source if isinstance(source, Mapping) else getattr(source, "masks", None)
    if not isinstance(masks, Mapping):
        raise UsageError(
            f"masks cannot be a {type(source).__name__}: pass a mapping of parameter names to boolean tensors, the "
            "result of prune, or the path of a mask file"
        )
    if not masks:
        raise UsageError("masks is empty: it must have at least one mask")
    return {str(name): _describe(str(name), mask) for name, mask in masks.items()}


def _describe(name: str, mask: Any) -> Mask:
    if isinstance(mask, torch.Tensor):
        return Mask(tuple(mask.shape), partial(numbers, mask))
    if isinstance(mask, np.ndarray):
        return Mask(mask.shape, lambda: mask)
    raise UsageError(f'mask "{name}" is a {type(mask).__name__}: pass a boolean tensor or array')


def _match(name: str, parameters: Mapping[str, LiveParameter], by_label: Mapping[str, str]) -> LiveParameter:
    plain = without_wrappers(name)
    names = [plain if plain in parameters else None, *map(by_label.get, find_labels(plain))]
    match = next((each for each in names if each is not None), None)
    if match is None:
        close = difflib.get_close_matches(plain, parameters, n=3, cutoff=0.3) or list(parameters)[:3]
        raise UsageError(f'mask "{name}" matches no parameter of the model. The closest are {", ".join(close)}.')
    return parameters[match]


def _read_pruned(name: str, mask: Mask, parameter: LiveParameter) -> torch.Tensor:
    """Return where the parameter is pruned. A mask with one value per output is expanded if its convention says so."""
    shape = tuple(parameter.tensor.shape)
    per_output = any(each.per_output and each.find_parameters(name) for each in CONVENTIONS)
    if not fits(mask.shape, shape, per_output):
        shapes = ["x".join(map(str, each)) or "a scalar" for each in (mask.shape, shape)]
        hint = " Is it transposed?" if mask.shape == shape[::-1] else ""
        raise UsageError(f'mask "{name}" has shape {shapes[0]}, but {parameter.name} has shape {shapes[1]}.{hint}')
    try:
        kept = read_kept(mask, name)
    except EffsparseError as error:
        raise UsageError(_without_option(error)) from error
    kept = kept.reshape(kept.shape + (1,) * (len(shape) - kept.ndim))
    return torch.from_numpy(~np.broadcast_to(kept, shape)).to(parameter.tensor.device)


def _without_option(error: Exception) -> str:
    return str(error).removeprefix("--masks: ")
