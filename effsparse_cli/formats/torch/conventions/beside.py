"""Masks that stand beside a weight which keeps its plain name. A row of the table says how a library names its mask,
and which weight that is the mask of; by its name alone a tensor is no mask, unless only a mask can have such a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.found import File, Found, fits, is_binary, masked


@dataclass(frozen=True)
class Naming:
    """`pattern` matches the mask's name, `weights` gives the names that its weight may have. `sure`: nothing else is
    called so, and a mask of the wrong shape or of an absent weight is a mistake. `rows`: it may have one number for
    each output."""

    pattern: re.Pattern[str]
    weights: Callable[[re.Match[str]], list[str]]
    sure: bool = True
    rows: bool = False


def _parents(match: re.Match[str]) -> list[str]:
    """The weights of all modules that the mask is inside of, the nearest first."""
    parts = match[1].rstrip(".").split(".") if match[1] else []
    return [".".join([*parts[:n], "weight"]) for n in range(len(parts), -1, -1)]


PLAIN = r"(?:in_proj_)?(?:weight|bias)(?:_[ih]h_l\d+(?:_reverse)?)?"
"""How torch.nn calls its own weights."""
NAMINGS = (
    # SynFlow and kin: X.weight, X.weight_mask; also weight_hh_l0_mask, in_proj_weight_mask
    Naming(re.compile(rf"^((?:.*\.)?{PLAIN})_mask$"), lambda m: [m[1]]),
    # OpenLTH: X.weight, mask_X___weight; the model may be an attribute of the masked one
    Naming(
        re.compile(r"^((?:.*\.)?)mask_([^.]*___[^.]*)$"),
        lambda m: [f"{m[1]}{inner}{m[2].replace('___', '.')}" for inner in ("", "model.")],
    ),
    # A sparsifier of torch.ao.pruning, beside a model whose masks were squashed: X.weight, state.X.weight.mask
    Naming(re.compile(r"^(?:.*\.)?state\.(.+)\.mask$"), lambda m: [m[1]], sure=False, rows=True),
    # Apex ASP: X.weight, X.__weight_mma_mask
    Naming(re.compile(r"^((?:.*\.)?)__([^.]+)_mma_mask$"), lambda m: [f"{m[1]}{m[2]}"]),
    # NNCF: X.weight, X.pre_ops.0.op.binary_mask, and one number for each filter
    Naming(re.compile(r"^((?:.*\.)?)_?binary_mask$"), _parents, sure=False),
    Naming(re.compile(r"^((?:.*\.)?)_?binary_filter_pruning_mask$"), _parents, rows=True),
    # DeepSpeed: X.weight, X.sparse_pruning_mask, and one number for each output
    Naming(re.compile(r"^((?:.*\.)?)sparse_pruning_mask$"), lambda m: [f"{m[1]}weight"]),
    Naming(re.compile(r"^((?:.*\.)?)(?:row|channel)_pruning_mask$"), lambda m: [f"{m[1]}weight"], rows=True),
    # Layers made by hand: X.weight, X.mask; X.kernel, X.kernel_mask
    Naming(re.compile(r"^((?:.*\.)?)mask$"), lambda m: [f"{m[1]}weight"], sure=False),
    Naming(re.compile(r"^(.*)_mask$"), lambda m: [m[1]], sure=False),
)


APART = (re.compile(r"^(?:.*\.)?(mask_[^.]*___[^.]*)$"), re.compile(r"^(?:.*\.)?(state\..+\.mask)$"))


def apart(name: str) -> str | None:
    """The name, without anything in front, of a mask that stands apart from the model: it names its weight by itself,
    and is not to be taken for something else because the model's names begin differently."""
    return next((match[1] for pattern in APART if (match := pattern.match(name))), None)


def find(file: File) -> Iterator[Found]:
    masks: dict[str, list[str]] = {}
    by_row = set()
    for name in file.free:
        for naming in NAMINGS:
            match = naming.pattern.match(name)
            weight = _weight(name, naming.weights(match), naming, file) if match else None
            if weight is not None:
                masks.setdefault(weight, []).append(name)
                by_row |= {weight} if naming.rows else set()
                break
    for weight, found in masks.items():
        yield masked(weight, weight, found, file, rows=weight in by_row, beside=True)
        # DeepSpeed takes the bias of a pruned output away with it.
        rows = [mask for mask in found if mask.endswith("row_pruning_mask")]
        bias = f"{weight.removesuffix('weight')}bias"
        if rows and bias in file.tensors:
            vector = file.tensors[rows[0]].reshape(-1).to(file.tensors[bias].dtype)
            yield Found(bias, (bias,), file.tensors[bias].detach() * vector)


def _weight(mask: str, candidates: list[str], naming: Naming, file: File) -> str | None:
    """The weight that the mask is of; None if it is something else that is called a mask."""
    here = [name for name in candidates if name in file.tensors]
    tensor = file.tensors[mask]
    if naming.sure:
        if not here:
            raise LoadError(f"the mask {mask} is of {candidates[0]}, which the file does not hold")
        return here[0]
    fitting = [name for name in here if fits(tuple(tensor.shape), tuple(file.tensors[name].shape), naming.rows)]
    return fitting[0] if fitting and is_binary(tensor) else None
