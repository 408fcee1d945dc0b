"""torch.nn.utils.prune: `X.weight_orig` and `X.weight_mask` are X.weight, and biases likewise."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.found import File, Found, masked

ORIGINAL, MASK = "_orig", "_mask"


def find(file: File) -> Iterator[Found]:
    for original in file.free:
        name = original.removesuffix(ORIGINAL)
        if name == original:
            continue
        mask = f"{name}{MASK}"
        if mask in file.tensors:
            yield masked(name, original, [mask], file)
        elif _is_pruned(name, file):
            if not file.masks_apart:
                raise LoadError(
                    f"{original} has no {name.rpartition('.')[2]}{MASK} beside it: torch.nn.utils.prune writes both, "
                    "and without the mask nothing tells what is pruned. Save the whole state_dict, or give the masks "
                    "with --masks."
                )
            yield Found(name, (original,), file.tensors[original])


def _is_pruned(name: str, file: File) -> bool:
    """Is the plain name free, and not that of a spectral norm, which writes `weight_orig` and `weight_u`?"""
    return name not in file.tensors and f"{name}_u" not in file.tensors
