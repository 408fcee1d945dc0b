"""Where the constant of an operator can go in a PyTorch model: its own bias, the running mean of a batch norm behind
it, or a bias that its module has room for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import fx, nn

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.decide import Home
from effsparse_cli.folding.torch.operators import Site, Wiring, bound, operator_of
from effsparse_cli.formats.torch.operators import Norm
from effsparse_cli.graph.primitives import Ints

WITH_BIAS = (nn.Linear, nn.modules.conv._ConvNd)
FORWARDS = {
    cls.forward
    for cls in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
}
NO_HOME = "there is no bias and no batch norm to put their constant into"
SHARED = "other operators use the bias too"
COMPUTED = "the bias is computed, so a constant cannot be put into it"


def find_home(wiring: Wiring, site: Site, sites: Sequence[Site], model: nn.Module | None) -> tuple[Home | None, str]:
    """`sites` are all operators that use the weight; `model` is there where a bias can be added."""
    if site.bias is not None:
        return _in_bias(wiring, site, site.bias, sites)
    home = _in_norm(wiring, site, sites) or (_in_module(wiring, site, sites, model) if model is not None else None)
    return home, "" if home else NO_HOME


def channel_axis(site: Site) -> int:
    return 1 - len(site.weight.meta["val"].shape) if site.contraction.spatial else -1


def channels(site: Site) -> int:
    shape: torch.Size = site.node.meta["val"].shape
    return int(shape[channel_axis(site)])


def following_norm(wiring: Wiring, site: Site) -> fx.Node | None:
    """The batch norm in evaluation that alone reads the operator's output, its channels being the operator's."""
    users = list(site.node.users)
    norm = norm_of(users[0]) if len(users) == 1 else None
    if norm is None or bound(users[0], 0) is not site.node:
        return None
    if norm.training is not None and bound(users[0], norm.training):
        return None
    rank = len(site.node.meta["val"].shape)
    return users[0] if rank + channel_axis(site) == 1 and wiring.leaves.get(bound(users[0], norm.mean)) else None


def norm_of(node: fx.Node) -> Norm | None:
    operator = operator_of(node)
    return operator.norm if operator is not None else None


def positions(wiring: Wiring, leaf: fx.Node, given: fx.Node) -> Ints | None:
    """For each element of a constant the stored element that it is; None if it is not just that."""
    stored = wiring.traced.stored[wiring.leaves[leaf]].detach()
    numbered = torch.arange(stored.numel(), device=stored.device).reshape(stored.shape)
    try:
        index, values = wiring.evaluate(given, {leaf: numbered}), wiring.evaluate(given, {})
    except (LoadError, NotImplementedError, RuntimeError, TypeError):
        return None
    if index.dtype != torch.int64 or index.ndim != 1 or len(set(index.tolist())) != index.numel():
        return None
    if not 0 <= int(index.min()) <= int(index.max()) < stored.numel():
        return None
    same = torch.equal(stored.reshape(-1)[index], values)
    return np.asarray(index.cpu().numpy()) if same else None


def origin(wiring: Wiring, given: fx.Node) -> fx.Node | None:
    """The one stored tensor that a constant is made of."""
    found, waiting = set(), [given]
    while waiting:
        node = waiting.pop()
        waiting += node.all_input_nodes
        if node in wiring.leaves:
            found.add(node)
    return found.pop() if len(found) == 1 else None


def only_for(wiring: Wiring, leaf: fx.Node, nodes: Sequence[fx.Node]) -> bool:
    """Do these operators alone use a stored tensor, under all of its names?"""
    owner = wiring.stored.owners[wiring.leaves[leaf]][0]
    tied = [node for node, name in wiring.leaves.items() if wiring.stored.owners[name][0] == owner]
    return all(user in nodes for node in tied for user, _ in wiring.uses(node))


def _in_bias(wiring: Wiring, site: Site, bias: fx.Node, sites: Sequence[Site]) -> tuple[Home | None, str]:
    leaf = origin(wiring, bias) if wiring.constant[bias] else None
    index = positions(wiring, leaf, bias) if leaf is not None else None
    if leaf is None or index is None or len(index) != channels(site):
        return None, COMPUTED
    if not only_for(wiring, leaf, [other.node for other in sites]):
        return None, SHARED
    return Home(wiring.leaves[leaf], index), ""


def _in_norm(wiring: Wiring, site: Site, sites: Sequence[Site]) -> Home | None:
    norms = {other: following_norm(wiring, other) for other in sites}
    node = norms[site]
    norm = norm_of(node) if node is not None else None
    leaf = bound(node, norm.mean) if node is not None and norm is not None else None
    if leaf is None or not only_for(wiring, leaf, [each for each in norms.values() if each is not None]):
        return None
    return Home(wiring.leaves[leaf], np.arange(channels(site)), sign=-1)


def _in_module(wiring: Wiring, site: Site, sites: Sequence[Site], model: nn.Module) -> Home | None:
    """A linear layer or convolution without a bias takes one, where its weight is used by no other module."""
    stored = wiring.traced.stored[wiring.leaves[site.leaf]]
    owners = [
        (path, module)
        for path, module in model.named_modules(remove_duplicate=False)
        if any(parameter is stored for parameter in module._parameters.values())
    ]
    if len({id(module) for _, module in owners}) != 1 or not isinstance(owners[0][1], WITH_BIAS):
        return None
    path, module = owners[0]
    if type(module).forward not in FORWARDS or module.bias is not None or not only_for_sites(wiring, sites):
        return None
    return Home(f"{path}.bias".lstrip("."), np.arange(channels(site)), new=True)


def only_for_sites(wiring: Wiring, sites: Sequence[Site]) -> bool:
    return all(only_for(wiring, site.leaf, [other.node for other in sites]) for site in sites)
