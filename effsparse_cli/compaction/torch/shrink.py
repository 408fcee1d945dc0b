"""Remove from a module what was removed from its ONNX export: slice stored tensors, and update the sizes that torch.nn
modules keep as attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from effsparse_cli.compaction.onnx.shrink import ShrunkModel
from effsparse_cli.formats.masks.live import refresh_pruned
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.primitives import Bools


def shrink_module(model: nn.Module, smaller: ShrunkModel) -> dict[str, list[Bools]]:
    """Shrink a module in place. It may no longer run if its code contains sizes. Return what is kept along each axis of
    stored tensors that got smaller."""
    kept = _kept_channels(model, smaller)
    new: dict[int, torch.Tensor] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                masks = kept.get(f"{path}.{name}".lstrip("."))
                if tensor is not None and masks is not None and id(tensor) not in new:
                    new[id(tensor)] = _slice(tensor, masks)
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in list(held.items()):
                if tensor is not None and id(tensor) in new:
                    held[name] = new[id(tensor)]  # type: ignore[assignment]
    refresh_pruned(model)
    groups = _groups(smaller)
    for path, module in model.named_modules():
        for cls, update in SIZES.items():
            if isinstance(module, cls):
                update(module, next((n for stored, n in groups.items() if stored.startswith(f"{path}.")), 0))
    return kept


def _kept_channels(model: nn.Module, smaller: ShrunkModel) -> dict[str, list[Bools]]:
    kept = {}
    for name, tensor in stored_tensors(model).items():
        value = smaller.survey.values.get(name)
        if value is not None and value.array is not None and value.shape == tuple(tensor.shape):
            masks = [smaller.kept.of(ids) for ids in value.axes]
            if not all(mask.all() for mask in masks):
                kept[name] = masks
    return kept


def _slice(tensor: torch.Tensor, masks: list[Bools]) -> torch.Tensor:
    values = tensor.detach()
    for axis, mask in enumerate(masks):
        values = values.index_select(axis, torch.from_numpy(mask).nonzero().reshape(-1).to(values.device))
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(values.clone(), requires_grad=tensor.requires_grad)
    return values.clone()


def _groups(smaller: ShrunkModel) -> Mapping[str, int]:
    """Return the new number of groups by stored weight of a convolution."""
    works = smaller.survey.facts.works
    return {w.stored: smaller.kept.count(w.groups) for w in works if w.stored is not None and w.groups is not None}


def _linear(module: Any, groups: int) -> None:
    module.out_features, module.in_features = module.weight.shape


def _conv(module: Any, groups: int) -> None:
    outs, ins = module.weight.shape[:2]
    module.groups = groups or module.groups
    if getattr(module, "transposed", False):
        module.in_channels, module.out_channels = outs, ins * module.groups
    else:
        module.out_channels, module.in_channels = outs, ins * module.groups


def _norm(module: Any, groups: int) -> None:
    for tensor in (module.weight, module.running_mean):
        if isinstance(tensor, torch.Tensor):
            module.num_features = len(tensor)


def _group_norm(module: Any, groups: int) -> None:
    """Only whole groups are removed."""
    if isinstance(module.weight, torch.Tensor):
        width = module.num_channels // module.num_groups
        module.num_channels = len(module.weight)
        module.num_groups = len(module.weight) // width


def _embedding(module: Any, groups: int) -> None:
    module.num_embeddings, module.embedding_dim = module.weight.shape


SIZES: dict[type[nn.Module], Callable[[Any, int], None]] = {
    nn.Linear: _linear,
    nn.modules.conv._ConvNd: _conv,
    nn.modules.batchnorm._NormBase: _norm,
    nn.GroupNorm: _group_norm,
    nn.Embedding: _embedding,
}
