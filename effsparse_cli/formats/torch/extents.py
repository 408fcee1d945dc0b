"""How many elements the results of a call have at most, from the sizes of its arguments alone, for the operators that
models compute their constants with. torch's own rules would take a second to import."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from effsparse_cli.formats.torch.registry import find

Given = Mapping[str, Any]
COPYING = {"reshape", "contiguous", "to", "flatten", "reshape_as", "ravel", "unflatten"}
"""Views that copy where they must."""
JOINING = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack", "_stack"}
FILLED = {"ones", "zeros", "full", "empty", "new_ones", "new_zeros", "new_full", "new_empty"}
AS_LARGE = {
    "flip", "fliplr", "flipud", "roll", "rot90", "tril", "triu", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle", "_weight_norm", "_weight_norm_interface", "norm_except_dim", "_unsafe_view", "type_as",
    "_reshape_alias", "trace", "scalar_tensor", "diff", "linalg_matrix_exp", "matrix_exp", "linalg_inv", "linalg_qr",
}  # fmt: skip
"""Besides the families below, results that are no larger than all tensors that enter."""
BOUNDED = {"elementwise", "scatter", "norm"}
SHRINKING = {"pooling"}
ENLARGED = {"_fft_c2r", "cdist", "_cdist_forward", "_euclidean_dist", "cosine_similarity"}


def _numel(value: Any) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 1


def _all(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def broadcast(tensors: Sequence[torch.Tensor]) -> int:
    """Elements of what tensors have in common when they are stretched to each other."""
    rank = max((tensor.ndim for tensor in tensors), default=0)
    padded = [(1,) * (rank - tensor.ndim) + tuple(tensor.shape) for tensor in tensors]
    return math.prod(max(sizes) for sizes in zip(*padded, strict=True))


def _matrices(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    """Of products of matrices: all sizes but those that are summed over, taken without broadcasting twice."""
    a, b = tensors[-2:] if len(tensors) > 1 else (tensors[0], tensors[0])
    rows = a.numel() // max(1, a.shape[-1]) if a.ndim else 1
    columns = b.shape[-1] if b.ndim > 1 else 1
    stacked = b.numel() // max(1, math.prod(b.shape[-2:])) if b.ndim > 2 else 1
    return rows * columns * stacked


def _linear(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    x, weight = given["input"], given["weight"]
    return int(int(x.numel()) // max(1, x.shape[-1]) * (weight.shape[0] if weight.ndim > 1 else 1))


def _repeated(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    times = given.get("repeats", given.get("dims"))
    return int(
        _numel(given["self"]) * math.prod(max(0, n) for n in (times if isinstance(times, list | tuple) else [times]))
    )


def _padded(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    shape, pad = list(given["self"].shape), list(given.get("pad", given.get("padding", ())))
    for i in range(len(pad) // 2):
        shape[-1 - i] += max(0, pad[2 * i]) + max(0, pad[2 * i + 1])
    return math.prod(shape)


def _counted(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    start, end, step = given.get("start", 0), given["end"], given.get("step", 1)
    return int(math.ceil(abs((end - start) / step)) + 1)


def _picked(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    indices, shape = given["indices"], given["self"].shape
    chosen = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in chosen):
        return _numel(given["self"]) * broadcast([index for index in chosen if index.dtype == torch.int64])
    rest = [n for i, n in enumerate(shape) if i >= len(indices) or indices[i] is None]
    return int(broadcast(chosen) * math.prod(rest))


def _selected(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    size = given["self"].shape[given["dim"]] if given["self"].ndim else 1
    return _numel(given["self"]) // max(1, size) * _numel(given["index"])


def _outer(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    return math.prod(tensor.numel() for tensor in tensors)


def _square(given: Given, tensors: Sequence[torch.Tensor]) -> int:
    return int(given["n"]) * int(given.get("m", given["n"]))


RULES: dict[str, Callable[[Given, Sequence[torch.Tensor]], int]] = {
    **dict.fromkeys(FILLED, lambda given, _: math.prod(max(0, n) for n in given["size"])),
    **dict.fromkeys(JOINING | AS_LARGE, lambda _, tensors: _all(tensors)),
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "addmm", "baddbmm", "addmv"), _matrices),
    **dict.fromkeys(("outer", "ger", "kron"), _outer),
    **dict.fromkeys(("repeat", "tile"), _repeated),
    **dict.fromkeys(("pad", "constant_pad_nd"), _padded),
    **dict.fromkeys(("index", "_unsafe_index"), _picked),
    "linear": _linear,
    "arange": _counted,
    "eye": _square,
    "linspace": lambda given, _: int(given["steps"]),
    "gather": lambda given, _: _numel(given["index"]),
    "index_select": _selected,
    "embedding": lambda given, _: _numel(given["indices"]) * math.prod(given["weight"].shape[1:]),
    "dot": lambda _, __: 1,
}


def extent(target: Any, given: Given, tensors: Sequence[torch.Tensor]) -> int | None:
    """An upper bound, None where there is no rule. Zero for a view."""
    name = target.overloadpacket.__name__
    if name.endswith("_") and not name.startswith("__"):
        return 0 if target._schema.arguments[0].alias_info is not None else None
    if name in RULES:
        return RULES[name](given, tensors)
    if name in COPYING:
        return _numel(tensors[0])
    if any(argument.alias_info is not None for argument in target._schema.arguments):
        return 0
    entry = find(target.namespace, name, target._overloadname)
    if torch.Tag.pointwise in target.tags or (entry is not None and entry.family in BOUNDED):
        return broadcast(tensors) if tensors else None
    if entry is not None and entry.family == "reduction" and name not in ENLARGED and "fft" not in name:
        return 2 * _all(tensors)
    return None
