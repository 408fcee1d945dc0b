"""Put the tensors of a checkpoint into its module: for a graph as views of the file, otherwise as masked copies."""

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
    """Return the module with copies of the tensors."""
    _set_tensors(module, {name: _read_dense(checkpoint, name).clone() for name in checkpoint.tensors})
    return module


def to_graph(module: nn.Module, checkpoint: Checkpoint, lower: Lower) -> Graph:
    """Return the graph of the module. Masked or compressed tensors are read lazily, through their layers. Only the
    graph shows which are weights: others are put in with their masks applied, and the module is lowered again."""
    special = {*checkpoint.masks, *checkpoint.values} & set(checkpoint.tensors)
    lazy = {name for name in special if checkpoint.tensors[name].ndim > 1}
    aliases = _aliases(module)

    def lowered(lazy: Collection[str]) -> Graph:
        dense = {name: _read_dense(checkpoint, name) for name in special if name not in lazy}
        _set_tensors(module, {n: dense.get(n, _placeholder(t)) for n, t in checkpoint.tensors.items()})
        return lower(module)

    graph = lowered(lazy)
    weights = {name for layer in graph.layers for name in _stored(layer, aliases)}
    unused = {name for layer in graph.unused for name in _stored(layer, aliases)}
    others = lazy - weights - unused
    if others:
        lazy -= others
        graph = lowered(lazy)
    layers = {name: _make_lazy(checkpoint, layer, lazy, aliases) for name, layer in graph.layers.items()}
    return graph.with_layers({name: layer for name, layer in layers.items() if layer is not graph.layers[name]})


def _read_dense(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    """Return the values that the model computes with."""
    tensor = checkpoint.values[name]() if name in checkpoint.values else checkpoint.tensors[name]
    if name not in checkpoint.masks:
        return tensor
    kept = torch.from_numpy(np.array(checkpoint.masks[name]()))
    return torch.where(kept, tensor, torch.zeros((), dtype=tensor.dtype))


def _placeholder(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros for a compressed tensor; they need no memory until they are written to."""
    if not tensor.is_meta:
        return tensor
    zeros = torch.from_numpy(np.zeros(tensor.numel() * tensor.element_size(), np.uint8))
    return zeros.view(tensor.dtype).reshape(tensor.shape)


def _aliases(module: nn.Module) -> dict[str, list[str]]:
    """Return all names of the tensor of each name."""
    tensors = stored_tensors(module)
    by_identity: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        by_identity.setdefault(id(tensor), []).append(name)
    return {name: by_identity[id(tensor)] for name, tensor in tensors.items()}


def _stored(layer: str, aliases: Mapping[str, list[str]]) -> list[str]:
    """Return the names of a layer's tensor; a layer is named without `.weight`."""
    return [alias for name in (layer, f"{layer}.weight") for alias in aliases.get(name, ())]


def _make_lazy(checkpoint: Checkpoint, layer: Layer, lazy: Collection[str], aliases: Mapping[str, list[str]]) -> Layer:
    name = next((name for name in _stored(layer.name, aliases) if name in lazy), None)
    if name is None:
        return layer
    lazy_one = lazy_layer(checkpoint, name)
    return replace(layer, kept=lazy_one.kept, values=lazy_one.values, masked=layer.masked or lazy_one.masked)


def lazy_layer(checkpoint: Checkpoint, name: str) -> Layer:
    """Return a tensor as a layer that is read when it is needed."""
    tensor = checkpoint.tensors[name]
    read = checkpoint.values.get(name, lambda: tensor)
    kept = checkpoint.masks.get(name, lambda: nonzero(read()))
    shape = tuple(tensor.shape)
    return Layer(name, "", shape, kept, values=lambda: numbers(read()), masked=name in checkpoint.masks, parameter=name)


def _set_tensors(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Replace the tensors of the module. Tied tensors stay tied."""
    main = _main_dtype(tensors)
    before, names = stored_tensors(module), file_names(module)
    new: dict[int, torch.Tensor] = {}
    for name, tensor in tensors.items():
        old = before[name]
        if tensor.is_floating_point() and tensor.ndim < 2 and main is not None:
            # Norms are often stored wider than weights, which works only if the model casts between them.
            tensor = tensor.to(main)
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


def _main_dtype(tensors: Mapping[str, torch.Tensor]) -> torch.dtype | None:
    """Return the dtype of most elements, among floats that support arithmetic."""
    sizes: Counter[torch.dtype] = Counter()
    for tensor in tensors.values():
        if tensor.is_floating_point() and tensor.element_size() > 1 and not tensor.is_quantized:
            sizes[tensor.dtype] += tensor.numel()
    return max(sizes, key=lambda dtype: sizes[dtype], default=None)
