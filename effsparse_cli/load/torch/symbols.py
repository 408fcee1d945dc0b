"""Sizes that an exported program leaves open: its symbols and their ranges enter, what larger sizes would be leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Shape
from effsparse_cli.graph.sizes import OpenSizes

Axes = tuple[Any, ...]
"""Sizes: numbers, or expressions of symbols."""


def open_symbols(program: ExportedProgram, given: Mapping[str, Shape]) -> OpenSizes | None:
    """Of a program that was not fixed to one shape yet. A symbol that only ever counts the first axis is a batch; with
    a shape that is given nothing is open."""
    axes, examples = ({}, {}) if given else _inputs(program)
    known, batches = _known(axes, examples), _batches(axes)
    grows = {symbol: size for symbol, size in known.items() if symbol not in batches}
    limits = {symbol: found for symbol, found in program.range_constraints.items() if symbol in grows}

    def shapes(factor: int) -> Mapping[str, Shape]:
        values = {symbol: size * factor if symbol in grows else size for symbol, size in known.items()}
        for symbol, limit in limits.items():
            if values[symbol] > limit.upper:
                raise UsageError(f"the program takes sizes up to {limit.upper}, not {values[symbol]}")
        return {
            name: tuple(n if isinstance(n, int) else int(n.subs(values)) for n in sizes) for name, sizes in axes.items()
        }

    return OpenSizes({str(symbol): size for symbol, size in grows.items()}, shapes) if grows else None


def _inputs(program: ExportedProgram) -> tuple[dict[str, Axes], dict[str, Shape]]:
    """The axes of inputs that are tensors, and the shapes that they had when the program was exported."""
    nodes = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    given = tree_flatten(program.example_inputs)[0] if program.example_inputs is not None else []
    pairs = [(node, x) for node, x in zip(nodes, given, strict=False) if isinstance(x, torch.Tensor)]
    axes = {node.name: tuple(_size(n) for n in node.meta["val"].shape) for node, _ in pairs}
    return axes, {node.name: tuple(x.shape) for node, x in pairs}


def _size(n: Any) -> Any:
    return n if isinstance(n, int) else n.node.expr


def _known(axes: Mapping[str, Axes], examples: Mapping[str, Shape]) -> dict[Any, int]:
    """The size of each symbol that is the size of an axis by itself."""
    found: dict[Any, int] = {}
    for name, example in examples.items():
        for n, size in zip(axes[name], example, strict=True):
            if not isinstance(n, int) and n.is_Symbol:
                found.setdefault(n, int(size))
    return found


def _batches(axes: Mapping[str, Axes]) -> set[Any]:
    first, others = set[Any](), set[Any]()
    for some in axes.values():
        for axis, n in enumerate(some):
            if not isinstance(n, int):
                (first if axis == 0 and len(some) > 1 else others).update(n.free_symbols)
    return first - others
