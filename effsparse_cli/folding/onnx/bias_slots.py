"""Where the constant of an op call can go: its bias, an Add or the running mean of a norm after it, or a new bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from effsparse_cli.folding.decide import BiasSlot
from effsparse_cli.folding.onnx.wiring import WeightUse, Wiring
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute

SHARED = "other operators use the bias too"
COMPUTED = "the bias is computed, so a constant cannot be folded into it"


@dataclass(frozen=True, eq=False)
class FollowingNorm:
    """A norm in evaluation mode after a contraction, and the names of its stored inputs."""

    node: NodeProto
    scale: str
    shift: str
    mean: str


def find_slot(wiring: Wiring, use: WeightUse, uses: Sequence[WeightUse], channels: int) -> tuple[BiasSlot | None, str]:
    """Return where the constant of a use can go, or the reason why it cannot. `uses` are all uses of the weight."""
    named = bias_name(wiring, use)
    if named is not None:
        if named not in wiring.stored or wiring.value(named, {}).size != channels:
            return None, COMPUTED
        if only_for(wiring, named, [reader for other in uses for reader in bias_readers(wiring, other)]):
            return BiasSlot(named, np.arange(channels)), ""
        # Exporters store equal biases once; a call that needs another one gets its own.
        return (_new_bias(wiring, use, channels), "") if len(uses) == 1 else (None, SHARED)
    norm = find_following_norm(wiring, use)
    norms = [each.node for other in uses if (each := find_following_norm(wiring, other)) is not None]
    if norm is not None and only_for(wiring, norm.mean, norms):
        return BiasSlot(norm.mean, np.arange(channels), sign=-1), ""
    # A new bias could be meant for one use or for all of them.
    if len(uses) > 1:
        return None, "the weight is used several times, and not all uses have a bias"
    return _new_bias(wiring, use, channels), ""


def _new_bias(wiring: Wiring, use: WeightUse, channels: int) -> BiasSlot:
    name = f"{use.stored[:-7]}.bias" if use.stored.endswith(".weight") else f"{use.stored}_bias"
    taken = {*wiring.stored, *wiring.makers, *wiring.readers, *wiring.outputs}
    while name in taken:
        name += "_"
    return BiasSlot(name, np.arange(channels), new=True)


def bias_name(wiring: Wiring, use: WeightUse) -> str | None:
    """Return the name of the constant that is added to the result, one number per channel."""
    bias = use.contraction.bias
    if bias is not None:
        return (use.node.input[bias] if len(use.node.input) > bias else "") or None
    added = _sum(wiring, use)
    return next((name for name in added.input if name != use.node.output[0]), None) if added is not None else None


def bias_readers(wiring: Wiring, use: WeightUse) -> list[NodeProto]:
    added = _sum(wiring, use) if use.contraction.bias is None else use.node
    return [added] if added is not None else []


def _sum(wiring: Wiring, use: WeightUse) -> NodeProto | None:
    """Return the Add that alone reads the result, if it adds a stored vector along the last axis."""
    reader = _sole_reader(wiring, use)
    if reader is None or reader.op_type != "Add":
        return None
    other = next((name for name in reader.input if name != use.node.output[0]), "")
    if other not in wiring.stored:
        return None
    array = wiring.value(other, {})
    return reader if array.ndim and array.size == array.shape[-1] and array.ndim <= 2 else None


def _sole_reader(wiring: Wiring, use: WeightUse) -> NodeProto | None:
    """Return the only node that reads the result."""
    name = use.node.output[0]
    readers = wiring.readers.get(name, [])
    return readers[0] if len(readers) == 1 and name not in wiring.outputs else None


def find_following_norm(wiring: Wiring, use: WeightUse) -> FollowingNorm | None:
    """Return the norm with running statistics that alone reads the result, channel by channel."""
    reader = _sole_reader(wiring, use)
    operator = find_operator(reader) if reader is not None else None
    norm = operator.norm if operator is not None else None
    if reader is None or norm is None or use.contraction.channel_axis != 1:
        return None
    names = [str(reader.input[i]) for i in (norm.scale, norm.shift, norm.mean)]
    usable = all(name in wiring.stored for name in names) and not attribute(reader, "training_mode", 0)
    return FollowingNorm(reader, *names) if usable and len(reader.output) == 1 else None


def only_for(wiring: Wiring, name: str, nodes: Sequence[NodeProto]) -> bool:
    """Whether no other nodes use a stored tensor."""
    return name not in wiring.outputs and all(any(user is node for node in nodes) for user, _ in wiring.uses(name))
