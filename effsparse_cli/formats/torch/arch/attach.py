"""A file's tensors are put into the module that they belong to: for a graph as they lie in the file, with masks
deciding what is kept; for work on the module itself with every number there and masks applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from effsparse_cli.formats.torch.arch.match import COUNTERS
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.tensors import nonzero, numbers
from effsparse_cli.formats.torch.tracing.trace import file_names, stored_tensors
from effsparse_cli.graph.graph import Graph, Layer

Lower = Callable[[nn.Module], Graph]


def attach(module: nn.Module, checkpoint: Checkpoint) -> nn.Module:
    """The live module, in memory of its own."""
    _put(module, {name: _whole(checkpoint, name).clone() for name in checkpoint.tensors})
    return module


def to_graph(module: nn.Module, checkpoint: Checkpoint, lower: Lower) -> Graph:
    """What has a mask or is compressed is read late, through its layer. Whether a tensor is a weight is known when the
    graph is there: a masked one that turns out to be none is put in with its mask applied."""
    special = {*checkpoint.masks, *checkpoint.values} & set(checkpoint.tensors)
    late = {name for name in special if checkpoint.tensors[name].ndim > 1}
    aliases = _aliases(module)

    def lowered(late: Collection[str]) -> Graph:
        whole = {name: _whole(checkpoint, name) for name in special if name not in late}
        _put(module, {name: whole.get(name, _bare(tensor)) for name, tensor in checkpoint.tensors.items()})
        return lower(module)

    graph = lowered(late)
    weights = {name for layer in graph.layers for name in _stored(layer, aliases)}
    unused = {name for layer in graph.unused for name in _stored(layer, aliases)}
    others = late - weights - unused
    if others:
        late -= others
        graph = lowered(late)
    layers = {name: _read_late(checkpoint, layer, late, aliases) for name, layer in graph.layers.items()}
    return graph.with_layers({name: layer for name, layer in layers.items() if layer is not graph.layers[name]})


def _whole(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    """The numbers, as the model computes with them."""
    tensor = checkpoint.values[name]() if name in checkpoint.values else checkpoint.tensors[name]
    if name not in checkpoint.masks:
        return tensor
    kept = torch.from_numpy(np.array(checkpoint.masks[name]()))
    return torch.where(kept, tensor, torch.zeros((), dtype=tensor.dtype))


def _bare(tensor: torch.Tensor) -> torch.Tensor:
    """Compressed ones are not there: zeros stand for them, which take no room until somebody writes to them."""
    if not tensor.is_meta:
        return tensor
    room = torch.from_numpy(np.zeros(tensor.numel() * tensor.element_size(), np.uint8))
    return room.view(tensor.dtype).reshape(tensor.shape)


def _aliases(module: nn.Module) -> dict[str, list[str]]:
    """For each tensor's name all that it has."""
    tensors = stored_tensors(module)
    by_identity: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        by_identity.setdefault(id(tensor), []).append(name)
    return {name: by_identity[id(tensor)] for name, tensor in tensors.items()}


def _stored(layer: str, aliases: Mapping[str, list[str]]) -> list[str]:
    """The module's names for a layer's tensor; a layer is named without `.weight`."""
    return [alias for name in (layer, f"{layer}.weight") for alias in aliases.get(name, ())]


def _read_late(checkpoint: Checkpoint, layer: Layer, late: Collection[str], aliases: Mapping[str, list[str]]) -> Layer:
    name = next((name for name in _stored(layer.name, aliases) if name in late), None)
    if name is None:
        return layer
    alone = late_layer(checkpoint, name)
    return replace(layer, kept=alone.kept, values=alone.values, masked=layer.masked or alone.masked)


def late_layer(checkpoint: Checkpoint, name: str) -> Layer:
    """A tensor as a layer of its own, which nothing is read of until it is asked for."""
    tensor = checkpoint.tensors[name]
    read = checkpoint.values.get(name, lambda: tensor)
    kept = checkpoint.masks.get(name, lambda: nonzero(read()))
    shape = tuple(tensor.shape)
    return Layer(name, "", shape, kept, values=lambda: numbers(read()), masked=name in checkpoint.masks, parameter=name)


def _put(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """In the place of the module's own. One that the module has under several names stays one."""
    usual = _usual_type(tensors)
    before, names = stored_tensors(module), file_names(module)
    new: dict[int, torch.Tensor] = {}
    for name, tensor in tensors.items():
        old = before[name]
        if tensor.is_floating_point() and tensor.ndim < 2 and usual is not None:
            # Norms are often kept wider than weights, which only works where the model casts between them.
            tensor = tensor.to(usual)
        if isinstance(old, nn.Parameter):
            tensor = nn.Parameter(tensor, requires_grad=old.requires_grad and tensor.is_floating_point())
        new.setdefault(id(old), tensor)
    for name, old in before.items():
        if old.is_meta and name.endswith(COUNTERS):
            new.setdefault(id(old), torch.zeros(old.shape, dtype=old.dtype))
    for path, each in list(module.named_modules(remove_duplicate=False)):
        for own in (*each._parameters, *each._buffers):
            name = f"{path}.{own}".lstrip(".")
            found = before.get(names.get(name, name))
            if found is not None and id(found) in new:
                setattr(each, own, new[id(found)])


def _usual_type(tensors: Mapping[str, torch.Tensor]) -> torch.dtype | None:
    """That of most elements, among the floats that arithmetic is defined for."""
    sizes: Counter[torch.dtype] = Counter()
    for tensor in tensors.values():
        if tensor.is_floating_point() and tensor.element_size() > 1 and not tensor.is_quantized:
            sizes[tensor.dtype] += tensor.numel()
    return max(sizes, key=lambda dtype: sizes[dtype], default=None)
