"""Biases and batch-norm parameters of channels that nothing reads: with them at zero nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import fx

from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.torch.homes import find_home, following_norm, norm_of, only_for
from effsparse_cli.folding.torch.operators import Site, Wiring, bound
from effsparse_cli.graph.primitives import Bools, Ints


def find_unread(wiring: Wiring, facts: Mapping[str, Facts], sites: Mapping[str, Sequence[Site]]) -> dict[str, Bools]:
    """By stored tensor, the elements that are not zero yet."""
    found: dict[str, Bools] = {}
    for name, some in sites.items():
        target = facts[name].target
        if target is None or len(some) != 1 or target.shape != tuple(some[0].node.meta["val"].shape):
            continue
        site, dead = some[0], np.flatnonzero(target.dead)
        if not len(dead):
            continue
        if site.bias is not None:
            home, _ = find_home(wiring, site, some, None)
            if home is not None:
                _mark(wiring, found, home.name, home.index[dead])
        norm = following_norm(wiring, site)
        if norm is not None:
            _mark_norm(wiring, found, norm, dead)
    return found


def _mark_norm(wiring: Wiring, found: dict[str, Bools], norm: fx.Node, dead: Ints) -> None:
    """A channel that the norm's own zero scale cuts off may still be read behind it: the shift is."""
    positions = norm_of(norm)
    assert positions is not None
    leaves = [bound(norm, position) for position in (positions.scale, positions.shift, positions.mean)]
    if any(leaf is not None and leaf not in wiring.leaves for leaf in leaves):
        return
    if leaves[0] is not None:
        scale = wiring.traced.stored[wiring.leaves[leaves[0]]].detach()
        dead = dead[scale.cpu().double().numpy()[dead] != 0]
    for leaf in leaves:
        if leaf is not None and only_for(wiring, leaf, [norm]):
            _mark(wiring, found, wiring.leaves[leaf], dead)


def _mark(wiring: Wiring, found: dict[str, Bools], name: str, index: Ints) -> None:
    tensor = wiring.traced.stored[name].detach()
    where = torch.zeros(tensor.numel(), dtype=torch.bool)
    where[torch.from_numpy(index)] = True
    where = where.reshape(tensor.shape) & (tensor != 0).cpu()
    if bool(where.any()):
        found[name] = where.numpy()
