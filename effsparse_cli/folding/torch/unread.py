"""Find biases and batch-norm parameters of channels that nothing reads: setting them to zero changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.torch.bias_slots import FollowingNorm, find_following_norm, find_slot
from effsparse_cli.folding.torch.wiring import WeightUse, Wiring
from effsparse_cli.graph.primitives import Bools, Ints


def find_unread(
    wiring: Wiring, activity: Mapping[str, LayerActivity], uses: Mapping[str, Sequence[WeightUse]]
) -> dict[str, Bools]:
    """Return, by stored tensor, the elements that nothing reads and that are not zero."""
    unread: dict[str, Bools] = {}
    for name, some in uses.items():
        output = activity[name].output
        if output is None or len(some) != 1 or output.shape != tuple(some[0].node.meta["val"].shape):
            continue
        use, dead = some[0], np.flatnonzero(output.dead)
        if not len(dead):
            continue
        if use.bias is not None:
            slot, _ = find_slot(wiring, use, some, None)
            if slot is not None:
                _mark(wiring, unread, slot.name, slot.index[dead])
        norm = find_following_norm(wiring, use)
        if norm is not None:
            _mark_norm(wiring, unread, norm, dead)
    return unread


def _mark_norm(wiring: Wiring, unread: dict[str, Bools], norm: FollowingNorm, dead: Ints) -> None:
    """A channel that is dead because of the norm's own zero scale may be read after it: its shift is."""
    leaves = [leaf for leaf in (norm.scale, norm.shift, norm.mean) if leaf is not None]
    if any(leaf not in wiring.leaves for leaf in leaves):
        return
    if norm.scale is not None:
        scale = wiring.traced.stored[wiring.leaves[norm.scale]].detach()
        dead = dead[scale.cpu().double().numpy()[dead] != 0]
    for leaf in leaves:
        if wiring.only_used_by(leaf, [norm.node]):
            _mark(wiring, unread, wiring.leaves[leaf], dead)


def _mark(wiring: Wiring, unread: dict[str, Bools], name: str, index: Ints) -> None:
    tensor = wiring.traced.stored[name].detach()
    where = torch.zeros(tensor.numel(), dtype=torch.bool)
    where[torch.from_numpy(index)] = True
    where = where.reshape(tensor.shape) & (tensor != 0).cpu()
    if bool(where.any()):
        unread[name] = where.numpy()
