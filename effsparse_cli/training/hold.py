"""Hold pruned weights at zero while a model is trained.

Held weights are zeroed after every step of an optimizer that has them and after every load_state_dict, and their
gradients are zero. The model itself is not changed otherwise: no parameters, buffers or modules are added, and what is
held is forgotten together with the layer.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle, unserializable_hook
from torch.utils.weak import WeakIdKeyDictionary

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.training.masks import MaskSource, PrunedWeights, resolve_masks
from effsparse_cli.training.parameters import (
    check_changeable,
    find_stored_mask,
    find_tensor,
    list_parameters,
    zero_gradient,
    zero_pruned,
)


def hold(model: nn.Module, masks: MaskSource | None = None) -> Hold:
    """Keep the pruned weights of a live module at zero during training, with any torch.optim optimizer.

    `masks` is as in `apply_masks`. By default, the masks that the model stores are held (torch.nn.utils.prune,
    parametrizations), and the zeros of all other parameters with two or more dimensions. The pruned weights are set to
    zero now, after every optimizer step and after `load_state_dict`; their gradients are zero, so that no momentum
    builds up and gradient norms are right.

    The hold lasts until `release`, the end of a `with` block, or `finalize`; the result need not be kept. A second hold
    of a parameter replaces the first. Copies and pickles of the model are not held: call `hold(copy)`. A layer that
    replaces a held layer is not held either.
    """
    found = _find_zeros(model) if masks is None else resolve_masks(model, masks)
    _watch_optimizers()
    created = Hold()
    for parameter, pruned in found:
        for layer, name in parameter.places:
            zero_pruned((layer, name), pruned)
            _drop(layer, name)
            weights = _held.setdefault(layer, {})
            weights[name] = HeldWeight(parameter.name, pruned, created)
            _watch_loading(layer)
            _enforce(layer, name, weights[name])
    return created


class Hold:
    """The weights that one call of `hold` keeps at zero, until `release` or the end of a `with` block."""

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        weights = {each.name: each.pruned for _, _, each in self._weights()}
        pruned = sum(int(each.sum()) for each in weights.values())
        total = sum(each.numel() for each in weights.values())
        return f"Hold({len(weights)} parameters, {pruned:,} of {total:,} weights at zero)"

    @property
    def masks(self) -> dict[str, Bools]:
        """The masks that are held, by the names that parameters have in a plain state_dict. True is kept."""
        return {each.name: (~each.pruned).cpu().numpy() for _, _, each in self._weights()}

    def apply(self) -> None:
        """Set the held weights to zero now. Needed only after changes that no optimizer of torch.optim made."""
        for layer, name, each in self._weights():
            _enforce(layer, name, each)

    def release(self) -> None:
        """Stop holding the weights. They stay zero until they are trained again."""
        for layer, name, _ in self._weights():
            _drop(layer, name)

    def _weights(self) -> list[tuple[nn.Module, str, HeldWeight]]:
        return [each for each in _all_held() if each[2].hold is self]


@dataclass(eq=False)
class HeldWeight:
    """One held parameter of one layer. `pruned` is True where it is held at zero."""

    name: str
    pruned: torch.Tensor
    hold: Hold
    handle: RemovableHandle | None = None

    def move_to(self, device: torch.device) -> torch.Tensor:
        if self.pruned.device != device:
            self.pruned = self.pruned.to(device)
        return self.pruned

    def watch_gradient(self, tensor: torch.Tensor) -> None:
        """Zero the gradients of a tensor, unless that is done already. Frozen parameters have none."""
        if tensor.requires_grad and (self.handle is None or self.handle.id not in (tensor._backward_hooks or {})):
            self.stop()
            self.handle = tensor.register_hook(self.zero_gradient)  # type: ignore[no-untyped-call]

    @unserializable_hook  # type: ignore[untyped-decorator]
    def zero_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        return zero_gradient(gradient, self.move_to(gradient.device))

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.remove()


_held: MutableMapping[nn.Module, dict[str, HeldWeight]] = WeakIdKeyDictionary()
"""What is held of each layer, by plain parameter name. Nothing in it refers to a layer or a parameter."""


def release_layers(model: nn.Module) -> None:
    """Release everything that is held of a model, by any hold."""
    for layer in model.modules():
        for name, each in list(_held.get(layer, {}).items()):
            _enforce(layer, name, each)
            _drop(layer, name)


def _all_held() -> Iterator[tuple[nn.Module, str, HeldWeight]]:
    for layer, weights in list(_held.items()):
        for name, each in list(weights.items()):
            yield layer, name, each


def _drop(layer: nn.Module, name: str) -> None:
    weights = _held.get(layer, {})
    if name in weights:
        weights.pop(name).stop()
    if not weights:
        _held.pop(layer, None)


@torch.no_grad()
def _enforce(layer: nn.Module, name: str, held: HeldWeight) -> None:
    tensor = find_tensor(layer, name)
    if tensor is not None:
        held.watch_gradient(tensor)
        tensor.masked_fill_(held.move_to(tensor.device), 0)


@cache
def _watch_optimizers() -> None:
    register_optimizer_step_post_hook(_after_step)


def _after_step(optimizer: Optimizer, *_: object) -> None:
    # Only what this optimizer changed: other models may have a forward pass whose backward is still to come.
    stepped = {id(each) for group in optimizer.param_groups for each in group["params"]}
    for layer, name, held in _all_held():
        if id(find_tensor(layer, name)) in stepped:
            _enforce(layer, name, held)


def _watch_loading(layer: nn.Module) -> None:
    if not isinstance(layer._load_state_dict_post_hooks, LoadHooks):
        layer._load_state_dict_post_hooks = LoadHooks(layer._load_state_dict_post_hooks)


class LoadHooks(OrderedDict[int, Callable[..., None]]):
    """The load_state_dict hooks of a layer, and one more that restores held zeros.

    That one is not an item, so copies and pickles of the layer have plain hooks and do not need this package. Handles
    of the hooks in `before` still remove them there.
    """

    def __init__(self, before: Mapping[int, Callable[..., None]]) -> None:
        super().__init__()
        self.before = before

    def values(self) -> Any:
        return [*self.before.values(), *super().values(), _after_load]

    def __reduce__(self) -> Any:
        return OrderedDict, (), None, None, iter([*self.before.items(), *self.items()])


def _after_load(layer: nn.Module, *_: object) -> None:
    for name, held in _held.get(layer, {}).items():
        tensor = find_tensor(layer, name)
        if tensor is not None:
            zero_pruned((layer, name), held.move_to(tensor.device))
            held.watch_gradient(tensor)


def _find_zeros(model: nn.Module) -> PrunedWeights:
    """Return what is pruned now, by the masks that a model stores or else by values."""
    found: PrunedWeights = []
    parameters = {id(each): each for each in list_parameters(model).values()}
    for parameter in parameters.values():
        if is_lazy(parameter.tensor) or parameter.tensor.ndim < 2:
            continue
        check_changeable(parameter)
        masks = [find_stored_mask(layer, parameter.tensor) for layer, _ in parameter.places]
        mask = next((each for each in masks if each is not None), None)
        pruned = parameter.tensor.detach() == 0 if mask is None else mask == 0
        if mask is not None or bool(pruned.any()):
            found.append((parameter, pruned))
        if mask is None and bool(pruned.all()):
            warnings.warn(f"{parameter.name} is all zeros and is held there; pass masks to train it", stacklevel=5)
    if not found:
        raise UsageError("the model has no zeros and no masks to hold: prune it first, or pass masks")
    return found
