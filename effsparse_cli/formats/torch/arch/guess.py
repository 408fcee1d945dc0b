"""What a state_dict looks like, from its names and shapes: a built-in model, or a plain chain of layers. It is said
and not assumed, since paths depend on what stands between the weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch

from effsparse_cli.formats.torch.arch.built_in.table import BUILT_IN
from effsparse_cli.formats.torch.arch.match import fit, without_prefix
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint

OWN = "--arch package.module:factory (your own code, which builds the model)"


def guess(checkpoint: Checkpoint) -> str:
    """One sentence: what to try."""
    for name in BUILT_IN:
        for given in _variants(name, checkpoint):
            with torch.device("meta"):
                module = BUILT_IN[name].make(**given)
            _, problems = fit(without_prefix(checkpoint, module), module)
            if not problems:
                arguments = "".join(f" --arch-arg {key}={value}" for key, value in given.items())
                return f"It looks like {name}: try --arch {name}{arguments}"
    return _chain(checkpoint.tensors) or f"Say what it belongs to with {OWN}"


def _variants(name: str, checkpoint: Checkpoint) -> list[dict[str, int | bool]]:
    """As in the paper, with as many classes as the file has, and without biases before norms."""
    last = [t for t in checkpoint.tensors.values() if t.ndim == 2]
    classes = [{}, {"num_classes": last[-1].shape[0]}] if last else [{}]
    biases = [{}, {"bias": False}] if name.startswith("vgg") else [{}]
    return [{**a, **b} for a in classes for b in biases]


def _chain(tensors: Mapping[str, torch.Tensor]) -> str:
    """Layers that each take what the one before gives."""
    weights = [t for t in tensors.values() if t.ndim >= 2 and t.is_floating_point()]
    pairs = itertools.pairwise(weights)
    if not weights or not all(after.shape[1] == before.shape[0] for before, after in pairs):
        return ""
    if all(t.ndim == 2 for t in weights):
        sizes = "-".join(str(n) for n in (weights[0].shape[1], *(t.shape[0] for t in weights)))
        what = f"a plain chain of {len(weights)} linear layers ({sizes})"
    elif all(t.ndim == weights[0].ndim for t in weights):
        what = f"a plain chain of {len(weights)} convolutions"
    else:
        return ""
    return f"It looks like {what}; what stands between them is not in the file. Give that with {OWN}"
