"""Parametrizations: `X.parametrizations.weight.original` and `X.parametrizations.weight.0.mask` (torchao) are X.weight.
torch.ao.pruning leaves the mask in its sparsifier's state, which a checkpoint may hold beside the model. Whatever else
is parametrized (weight norm, spectral norm, orthogonal) is no mask and stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.found import File, Found, masked

ORIGINAL = re.compile(r"^((?:.*\.)?)parametrizations\.([^.]+)\.original$")
DOT = re.compile(r"\.")


def find(file: File) -> Iterator[Found]:
    states = {name.partition("state.")[2]: name for name in file.free if name.endswith(".mask") and "state." in name}
    inside: dict[str, list[str]] = {name.removesuffix("original"): [] for name in file.free if ORIGINAL.match(name)}
    for name in file.free if inside else ():
        for folder in {name[: dot.end()] for dot in DOT.finditer(name)} & inside.keys():
            inside[folder].append(name)
    for original in file.free:
        match = ORIGINAL.match(original)
        if match is None:
            continue
        name = f"{match[1]}{match[2]}"
        folder = original.removesuffix("original")
        others = [other for other in inside[folder] if other != original]
        masks = [other for other in others if other.endswith(".mask")]
        state = states.get(f"{name}.mask")
        if not others and state is not None:
            yield masked(name, original, [state], file, rows=True)
            # Where whole outputs are pruned, a hook adds the bias, which the library has put aside.
            if f"{match[1]}_bias" in file.free:
                yield Found(f"{match[1]}bias", (f"{match[1]}_bias",), file.tensors[f"{match[1]}_bias"])
        elif masks and masks == others:
            yield masked(name, original, masks, file, rows=True)
        elif not others:
            if not file.masks_apart:
                raise LoadError(_alone(original, name))
            yield Found(name, (original,), file.tensors[original])


def _alone(original: str, name: str) -> str:
    return (
        f"{original} has no mask in this file. If torch.ao.pruning made it, the mask is in the sparsifier: call "
        f"squash_mask() before saving, or save the sparsifier's state_dict and give it with --masks. If {name} is "
        "parametrized otherwise, name the architecture that has the parametrization with --arch."
    )
