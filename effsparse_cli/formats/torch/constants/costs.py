"""The cost of evaluating an operator, from the sizes of its arguments: upper bounds on the elements of its results, and
the elementary steps per element, for the rows of `OPERATORS`. torch's own shape rules would take a second to import."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from effsparse_cli.graph.equations import letter_sizes

Arguments = Mapping[str, Any]
Tensors = Sequence[torch.Tensor]
ResultSize = Callable[[Arguments, Tensors], int]
Steps = Callable[[Arguments, Tensors, int], int]
"""Steps per element: from the arguments by name, the tensors among them, and the number of elements to compute."""


def numel(value: Any) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 1


def total(arguments: Arguments, tensors: Tensors) -> int:
    return sum(tensor.numel() for tensor in tensors)


def twice_total(arguments: Arguments, tensors: Tensors) -> int:
    return 2 * total(arguments, tensors)


def product(arguments: Arguments, tensors: Tensors) -> int:
    return math.prod(tensor.numel() for tensor in tensors)


def broadcast(arguments: Arguments, tensors: Tensors) -> int:
    """Elements of the shape that the tensors broadcast to."""
    rank = max((tensor.ndim for tensor in tensors), default=0)
    padded = [(1,) * (rank - tensor.ndim) + tuple(tensor.shape) for tensor in tensors]
    return math.prod(max(sizes) for sizes in zip(*padded, strict=True))


def matrices(arguments: Arguments, tensors: Tensors) -> int:
    """Return the cost of a matrix product: all sizes but those that are summed over, without broadcasting twice."""
    a, b = tensors[-2:] if len(tensors) > 1 else (tensors[0], tensors[0])
    rows = a.numel() // max(1, a.shape[-1]) if a.ndim else 1
    columns = b.shape[-1] if b.ndim > 1 else 1
    stacked = b.numel() // max(1, math.prod(b.shape[-2:])) if b.ndim > 2 else 1
    return rows * columns * stacked


def linear(arguments: Arguments, tensors: Tensors) -> int:
    x, weight = arguments["input"], arguments["weight"]
    return int(int(x.numel()) // max(1, x.shape[-1]) * (weight.shape[0] if weight.ndim > 1 else 1))


def repeated(arguments: Arguments, tensors: Tensors) -> int:
    times = arguments.get("repeats", arguments.get("dims"))
    counts = times if isinstance(times, list | tuple) else [times]
    return int(numel(arguments["self"]) * math.prod(max(0, n) for n in counts))


def padded(arguments: Arguments, tensors: Tensors) -> int:
    shape, pad = list(arguments["self"].shape), list(arguments.get("pad", arguments.get("padding", ())))
    for i in range(len(pad) // 2):
        shape[-1 - i] += max(0, pad[2 * i]) + max(0, pad[2 * i + 1])
    return math.prod(shape)


def filled(arguments: Arguments, tensors: Tensors) -> int:
    return math.prod(max(0, n) for n in arguments["size"])


def arange(arguments: Arguments, tensors: Tensors) -> int:
    start, end, step = arguments.get("start", 0), arguments["end"], arguments.get("step", 1)
    return int(math.ceil(abs((end - start) / step)) + 1)


def indexed(arguments: Arguments, tensors: Tensors) -> int:
    indices, shape = arguments["indices"], arguments["self"].shape
    chosen = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in chosen):
        return numel(arguments["self"]) * broadcast({}, [index for index in chosen if index.dtype == torch.int64])
    rest = [n for i, n in enumerate(shape) if i >= len(indices) or indices[i] is None]
    return int(broadcast({}, chosen) * math.prod(rest))


def index_selected(arguments: Arguments, tensors: Tensors) -> int:
    size = arguments["self"].shape[arguments["dim"]] if arguments["self"].ndim else 1
    return numel(arguments["self"]) // max(1, size) * numel(arguments["index"])


def embedded(arguments: Arguments, tensors: Tensors) -> int:
    return numel(arguments["indices"]) * int(math.prod(arguments["weight"].shape[1:]))


def few_steps(arguments: Arguments, tensors: Tensors, written: int) -> int:
    return 4


def longest_axis(arguments: Arguments, tensors: Tensors, written: int) -> int:
    """For sums of products: no axis that is summed over is longer."""
    return max((size for tensor in tensors for size in tensor.shape), default=1)


def decomposition(arguments: Arguments, tensors: Tensors, written: int) -> int:
    """For cubic algorithms on matrices."""
    return 30 * longest_axis(arguments, tensors, written)


def summed_products(arguments: Arguments, tensors: Tensors, written: int) -> int:
    """For products of several tensors: what they have in common is summed over."""
    return math.isqrt(math.prod(max(1, tensor.numel()) for tensor in tensors) // max(1, written)) + 1


def kernel(arguments: Arguments, tensors: Tensors, written: int) -> int:
    return max((t.numel() // max(1, t.shape[0]) for t in tensors[1:2]), default=1)


def spatial_axes(arguments: Arguments, tensors: Tensors, written: int) -> int:
    return max((math.prod(tensor.shape[2:]) for tensor in tensors[:1]), default=1)


def einsum(arguments: Arguments, tensors: Tensors, written: int) -> int:
    """The product of the sizes of all letters bounds every intermediate result."""
    sizes = letter_sizes(str(arguments["equation"]), [tensor.shape for tensor in arguments["tensors"]])
    return math.prod(sizes.values()) // max(1, written)
