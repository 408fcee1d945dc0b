"""Masks written into PyTorch models: the module or program as it was, with every weight that is not kept at zero,
or a module with its masks in the form of torch.nn.utils.prune."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.live import find_mask
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.saving.atomic import replacing
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled
from effsparse_cli.formats.torch.pickled import read_module
from effsparse_cli.formats.torch.stored import Stored
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.primitives import Bools

Masks = Mapping[str, Bools]
Tensors = Mapping[str, torch.Tensor]


def write_module(source: Path, target: Path, kept: Masks, options: LoadOptions, form: str = "zeros") -> None:
    """`kept` by layer name, each in the shape of its layer; a layer that is not named stays as it is."""
    check_alone(source, target)
    model = read_module(source, options)
    FORMS[form](model, kept)
    with replacing(target) as temporary:
        torch.save(model, temporary)


def stands_alone(source: Path) -> bool:
    """Is the module all that its file holds?"""
    return not isinstance(open_pickled(source).content, Mapping)


def check_alone(source: Path, target: Path) -> None:
    """What stands beside a module cannot be written without running the file's code, so it must not be written over."""
    if target.exists() and target.samefile(source) and not stands_alone(source):
        raise UsageError(
            f"{source} holds more than its module, and the module alone can be written. Write it to another file, -o"
        )


def zero_weights(model: nn.Module, kept: Masks) -> None:
    """In place. A mask that stands beside a weight is written too, so that it says the same."""
    tensors = stored_tensors(model)
    with torch.no_grad():
        for name, new in changed_tensors(tensors, kept).items():
            tensors[name].copy_(new)


def add_masks(model: nn.Module, kept: Masks) -> None:
    """In place, as torch.nn.utils.prune does it: `weight_orig` keeps its values, `weight_mask` is a buffer, and a
    hook multiplies them."""
    tensors = stored_tensors(model)
    found = {name: torch.from_numpy(kept[layer].copy()) for layer, name in find_tensors(tensors, kept).items()}
    homes = [home for name in found if find_mask(name, tensors) is None for home in _homes(model, tensors[name], name)]
    for name, mask in found.items():
        beside = find_mask(name, tensors)
        if beside is not None:
            with torch.no_grad():
                tensors[beside].copy_(mask)
    for name, module, own in homes:
        prune.custom_from_mask(module, own, found[name])  # type: ignore[no-untyped-call]


def _homes(model: nn.Module, tensor: torch.Tensor, name: str) -> Iterator[tuple[str, nn.Module, str]]:
    """Where in the model a parameter is, under which name of its module's own. Nothing is changed before all are
    known to be fit for a mask."""
    for path, module in model.named_modules(remove_duplicate=False):
        for own, parameter in module.named_parameters(recurse=False):
            if parameter is tensor:
                if isinstance(module, nn.RNNBase):
                    raise UsageError(
                        f"{path}.{own} belongs to a recurrent layer, which torch.nn.utils.prune cannot mask. Write "
                        "zeroed weights (without --form prune) or --masks-only"
                    )
                yield name, module, own


FORMS: dict[str, Callable[[nn.Module, Masks], None]] = {"zeros": zero_weights, "prune": add_masks}


def changed_tensors(tensors: Tensors, kept: Masks) -> dict[str, torch.Tensor]:
    """By stored name, what each tensor that the masks concern is to hold."""
    new = {}
    for layer, name in find_tensors(tensors, kept).items():
        tensor, mask = tensors[name].detach(), torch.from_numpy(kept[layer].copy())
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise UsageError(f"{name} is stored in a sparse or quantised form that cannot be written. Use --masks-only")
        new[name] = torch.where(mask.to(tensor.device), tensor, torch.zeros((), dtype=tensor.dtype))
        beside = find_mask(name, tensors)
        if beside is not None:
            new[beside] = mask.to(tensors[beside].dtype)
    return new


def find_tensors(tensors: Tensors, layers: Collection[str]) -> dict[str, str]:
    """The stored tensor of each layer that is named."""
    stored = Stored(tensors, set())
    names = {stored.label(name): name for name, (owner, _) in reversed(stored.owners.items()) if owner == name}
    absent = [layer for layer in layers if layer not in names]
    if absent:
        raise UsageError(f"the model stores no tensor for {', '.join(absent)}, so its masks cannot be written")
    return {layer: names[layer] for layer in layers}
