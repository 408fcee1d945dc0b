"""Sizes that an exported program leaves open: its symbols and their ranges enter, what larger sizes would be leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Shape
from effsparse_cli.graph.sizes import OpenSizes


def open_symbols(program: ExportedProgram, given: Mapping[str, Shape]) -> OpenSizes | None:
    """Of a program that was not fixed to one shape yet. A symbol that only ever counts the first axis is a batch; with
    a shape that is given nothing is open."""
    inputs = {} if given else _inputs(program)
    known, batches = _known(inputs), _batches(inputs)
    grows = {symbol: size for symbol, size in known.items() if symbol not in batches}
    if not grows:
        return None

    def shapes(factor: int) -> Mapping[str, Shape]:
        values = {symbol: size * factor if symbol in grows else size for symbol, size in known.items()}
        for symbol, size in values.items():
            limits = program.range_constraints.get(symbol)
            if limits is not None and not limits.lower <= size <= limits.upper:
                raise UsageError(
                    f"the program was exported for sizes from {limits.lower} to {limits.upper}, not {size}"
                )
        return {
            node.name: tuple(n if isinstance(n, int) else int(n.node.expr.subs(values)) for n in _shape(node))
            for node, _ in inputs.values()
        }

    return OpenSizes({str(symbol): size for symbol, size in grows.items()}, shapes)


def _inputs(program: ExportedProgram) -> dict[str, tuple[fx.Node, Shape]]:
    """Inputs that are tensors, with the shapes that they had when the program was exported."""
    nodes = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    examples = tree_flatten(program.example_inputs)[0] if program.example_inputs is not None else []
    pairs = zip(nodes, examples, strict=False)
    return {node.name: (node, tuple(example.shape)) for node, example in pairs if isinstance(example, torch.Tensor)}


def _shape(node: fx.Node) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape)


def _known(inputs: Mapping[str, tuple[fx.Node, Shape]]) -> dict[Any, int]:
    """The size of each symbol that is the size of an axis by itself."""
    found: dict[Any, int] = {}
    for node, example in inputs.values():
        for n, size in zip(_shape(node), example, strict=True):
            if not isinstance(n, int) and n.node.expr.is_Symbol:
                found.setdefault(n.node.expr, int(size))
    return found


def _batches(inputs: Mapping[str, tuple[fx.Node, Shape]]) -> set[Any]:
    first, others = set[Any](), set[Any]()
    for node, example in inputs.values():
        for axis, n in enumerate(_shape(node)):
            if not isinstance(n, int):
                (first if axis == 0 and len(example) > 1 else others).update(n.node.expr.free_symbols)
    return first - others
