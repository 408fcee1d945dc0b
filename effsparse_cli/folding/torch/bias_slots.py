"""Find where the constant of an operator can be added in a PyTorch model: its own bias, the running mean of a batch
norm after it, or a new bias of its module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import fx, nn

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.decide import BiasSlot
from effsparse_cli.folding.torch.wiring import WeightUse, Wiring, argument, operator_of
from effsparse_cli.graph.primitives import Ints

WITH_BIAS = (nn.Linear, nn.modules.conv._ConvNd)
FORWARDS = {
    cls.forward
    for cls in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
}
NO_SLOT = "there is no bias or batch norm to fold their constant into"
SHARED = "other operators use the bias too"
COMPUTED = "the bias is computed, so a constant cannot be folded into it"


@dataclass(frozen=True, eq=False)
class FollowingNorm:
    """A batch norm in evaluation mode after an operator, and what it reads as its parameters."""

    node: fx.Node
    scale: fx.Node | None
    shift: fx.Node | None
    mean: fx.Node


def find_slot(
    wiring: Wiring, use: WeightUse, uses: Sequence[WeightUse], model: nn.Module | None
) -> tuple[BiasSlot | None, str]:
    """Return the slot of one of all `uses` of a weight, or why there is none. Without `model`, no bias is added."""
    if use.bias is not None:
        return _in_bias(wiring, use, use.bias, uses)
    slot = _in_norm(wiring, use, uses) or (_in_module(wiring, use, uses, model) if model is not None else None)
    return slot, "" if slot else NO_SLOT


def find_following_norm(wiring: Wiring, use: WeightUse) -> FollowingNorm | None:
    """Return the batch norm in evaluation mode that alone reads the operator's output, along the same channels."""
    users = list(use.node.users)
    operator = operator_of(users[0]) if len(users) == 1 else None
    norm = operator.norm if operator is not None else None
    if norm is None or argument(users[0], 0) is not use.node:
        return None
    if norm.training is not None and argument(users[0], norm.training):
        return None
    scale, shift, mean = (argument(users[0], position) for position in (norm.scale, norm.shift, norm.mean))
    rank = len(use.node.meta["val"].shape)
    if rank + use.channel_axis != 1 or mean not in wiring.leaves:
        return None
    return FollowingNorm(users[0], scale, shift, mean)


def _in_bias(wiring: Wiring, use: WeightUse, bias: fx.Node, uses: Sequence[WeightUse]) -> tuple[BiasSlot | None, str]:
    leaf = _only_leaf(wiring, bias) if wiring.constant[bias] else None
    index = _positions(wiring, leaf, bias) if leaf is not None else None
    if leaf is None or index is None or len(index) != use.channels:
        return None, COMPUTED
    if not wiring.only_used_by(leaf, [other.node for other in uses]):
        return None, SHARED
    return BiasSlot(wiring.leaves[leaf], index), ""


def _only_leaf(wiring: Wiring, node: fx.Node) -> fx.Node | None:
    """Return the stored tensor that a constant is computed from, None if there are several."""
    leaves, waiting = set(), [node]
    while waiting:
        each = waiting.pop()
        waiting += each.all_input_nodes
        if each in wiring.leaves:
            leaves.add(each)
    return leaves.pop() if len(leaves) == 1 else None


def _positions(wiring: Wiring, leaf: fx.Node, node: fx.Node) -> Ints | None:
    """Return the stored element that each element of a constant is, None if it is not that."""
    stored = wiring.traced.stored[wiring.leaves[leaf]].detach()
    numbered = torch.arange(stored.numel(), device=stored.device).reshape(stored.shape)
    try:
        index, values = wiring.evaluate(node, {leaf: numbered}), wiring.evaluate(node, {})
    except (LoadError, NotImplementedError, RuntimeError, TypeError):
        return None
    if index.dtype != torch.int64 or index.ndim != 1 or len(set(index.tolist())) != index.numel():
        return None
    if not 0 <= int(index.min()) <= int(index.max()) < stored.numel():
        return None
    same = torch.equal(stored.reshape(-1)[index], values)
    return np.asarray(index.cpu().numpy()) if same else None


def _in_norm(wiring: Wiring, use: WeightUse, uses: Sequence[WeightUse]) -> BiasSlot | None:
    norms = {other: find_following_norm(wiring, other) for other in uses}
    norm = norms[use]
    if norm is None or not wiring.only_used_by(norm.mean, [each.node for each in norms.values() if each is not None]):
        return None
    return BiasSlot(wiring.leaves[norm.mean], np.arange(use.channels), sign=-1)


def _in_module(wiring: Wiring, use: WeightUse, uses: Sequence[WeightUse], model: nn.Module) -> BiasSlot | None:
    """Return a new bias of a linear layer or convolution that has none, if no other module uses its weight."""
    stored = wiring.traced.stored[wiring.leaves[use.leaf]]
    owners = [
        (path, module)
        for path, module in model.named_modules(remove_duplicate=False)
        if any(parameter is stored for parameter in module._parameters.values())
    ]
    if len({id(module) for _, module in owners}) != 1 or not isinstance(owners[0][1], WITH_BIAS):
        return None
    path, module = owners[0]
    if type(module).forward not in FORWARDS or module.bias is not None:
        return None
    nodes = [other.node for other in uses]
    if not all(wiring.only_used_by(other.leaf, nodes) for other in uses):
        return None
    return BiasSlot(f"{path}.bias".lstrip("."), np.arange(use.channels), new=True)
