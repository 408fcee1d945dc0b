"""Guess the architecture of a state_dict from its names and shapes: a built-in model or a chain of layers. The guess is
only suggested, because paths depend on the operators between the weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch

from effsparse_cli.formats.torch.arch.built_in.table import BUILT_IN
from effsparse_cli.formats.torch.arch.match import fit, strip_prefix
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint

OWN = "--arch package.module:factory (your own code that builds the model)"


def guess(checkpoint: Checkpoint) -> str:
    """Return one sentence that says what to try."""
    for name in BUILT_IN:
        for arguments in _variants(name, checkpoint):
            with torch.device("meta"):
                module = BUILT_IN[name].make(**arguments)
            _, problems = fit(strip_prefix(checkpoint, module), module)
            if not problems:
                options = "".join(f" --arch-arg {key}={value}" for key, value in arguments.items())
                return f"It looks like {name}: try --arch {name}{options}"
    return _describe_chain(checkpoint.tensors) or f"Pass its model with {OWN}"


def _variants(name: str, checkpoint: Checkpoint) -> list[dict[str, int | bool]]:
    """Return arguments to try: those of the paper, the number of classes in the file, and no biases before norms."""
    last = [t for t in checkpoint.tensors.values() if t.ndim == 2]
    classes = [{}, {"num_classes": last[-1].shape[0]}] if last else [{}]
    biases = [{}, {"bias": False}] if name.startswith("vgg") else [{}]
    return [{**a, **b} for a in classes for b in biases]


def _describe_chain(tensors: Mapping[str, torch.Tensor]) -> str:
    """Describe a chain of layers, each of which fits the output of the one before."""
    weights = [t for t in tensors.values() if t.ndim >= 2 and t.is_floating_point()]
    pairs = itertools.pairwise(weights)
    if not weights or not all(after.shape[1] == before.shape[0] for before, after in pairs):
        return ""
    if all(t.ndim == 2 for t in weights):
        sizes = "-".join(str(n) for n in (weights[0].shape[1], *(t.shape[0] for t in weights)))
        what = f"a chain of {len(weights)} linear layers ({sizes})"
    elif all(t.ndim == weights[0].ndim for t in weights):
        what = f"a chain of {len(weights)} convolutions"
    else:
        return ""
    return f"It looks like {what}; the operators between them are not in the file. Pass the model with {OWN}"
