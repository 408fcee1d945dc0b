"""Where the constant of an operator can go in an ONNX model: its own bias, a sum behind it, the running mean of a
batch norm behind it, or a bias that is made for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from effsparse_cli.folding.decide import Home
from effsparse_cli.folding.onnx.wiring import Site, Wiring, attribute
from effsparse_cli.formats.onnx.operators import Norm
from effsparse_cli.formats.onnx.ops import find_operator

SHARED = "other operators use the bias too"
COMPUTED = "the bias is computed, so a constant cannot be put into it"


@dataclass(frozen=True, eq=False)
class FollowingNorm:
    """A norm in evaluation mode behind an operator, and the names of its stored inputs."""

    node: NodeProto
    inputs: Norm

    @property
    def scale(self) -> str:
        return str(self.node.input[self.inputs.scale])

    @property
    def shift(self) -> str:
        return str(self.node.input[self.inputs.shift])

    @property
    def mean(self) -> str:
        return str(self.node.input[self.inputs.mean])


def find_home(wiring: Wiring, site: Site, sites: Sequence[Site], channels: int) -> tuple[Home | None, str]:
    """`sites` are all operators that use the weight."""
    named = bias_name(wiring, site)
    if named is not None:
        if named not in wiring.stored or wiring.value(named, {}).size != channels:
            return None, COMPUTED
        if only_for(wiring, named, [reader for other in sites for reader in bias_readers(wiring, other)]):
            return Home(named, np.arange(channels)), ""
        # Exporters store equal biases once; an operator that needs another gets one of its own.
        return (_new_bias(wiring, site, channels), "") if len(sites) == 1 else (None, SHARED)
    norm = following_norm(wiring, site)
    norms = [each.node for other in sites if (each := following_norm(wiring, other)) is not None]
    if norm is not None and only_for(wiring, norm.mean, norms):
        return Home(norm.mean, np.arange(channels), sign=-1), ""
    # One bias for all uses of a weight could not be told from one for each.
    if len(sites) > 1:
        return None, "the weight is used several times, and not all uses have a bias"
    return _new_bias(wiring, site, channels), ""


def _new_bias(wiring: Wiring, site: Site, channels: int) -> Home:
    wanted = f"{site.leaf[:-7]}.bias" if site.leaf.endswith(".weight") else f"{site.leaf}_bias"
    return Home(_free_name(wiring, wanted), np.arange(channels), new=True)


def bias_name(wiring: Wiring, site: Site) -> str | None:
    """The constant that is added to what the operator gives, per channel."""
    bias = site.contraction.bias
    if bias is not None:
        return (site.node.input[bias] if len(site.node.input) > bias else "") or None
    added = _sum(wiring, site)
    return next((name for name in added.input if name != site.node.output[0]), None) if added is not None else None


def bias_readers(wiring: Wiring, site: Site) -> list[NodeProto]:
    added = _sum(wiring, site) if site.contraction.bias is None else site.node
    return [added] if added is not None else []


def _sum(wiring: Wiring, site: Site) -> NodeProto | None:
    """The Add behind a product of matrices that is all that reads it, if it adds a stored vector to the last axis."""
    reader = sole_reader(wiring, site)
    if reader is None or reader.op_type != "Add":
        return None
    other = next((name for name in reader.input if name != site.node.output[0]), "")
    if other not in wiring.stored:
        return None
    array = wiring.value(other, {})
    return reader if array.ndim and array.size == array.shape[-1] and array.ndim <= 2 else None


def sole_reader(wiring: Wiring, site: Site) -> NodeProto | None:
    name = site.node.output[0]
    readers = wiring.users.get(name, [])
    return readers[0] if len(readers) == 1 and name not in wiring.outputs else None


def following_norm(wiring: Wiring, site: Site) -> FollowingNorm | None:
    """Return the norm with running statistics that alone reads the operator's output, channel by channel."""
    reader = sole_reader(wiring, site)
    operator = find_operator(reader) if reader is not None else None
    if reader is None or operator is None or operator.norm is None or site.contraction.channel_axis != 1:
        return None
    found = FollowingNorm(reader, operator.norm)
    stored = all(name in wiring.stored for name in (found.scale, found.shift, found.mean))
    return found if stored and not attribute(reader, "training_mode", 0) and len(reader.output) == 1 else None


def only_for(wiring: Wiring, name: str, nodes: Sequence[NodeProto]) -> bool:
    """Do these operators alone use a stored tensor?"""
    return name not in wiring.outputs and all(any(user is node for node in nodes) for user, _ in wiring.uses(name))


def _free_name(wiring: Wiring, name: str) -> str:
    taken = {*wiring.stored, *wiring.makers, *wiring.users, *wiring.outputs}
    while name in taken:
        name += "_"
    return name
