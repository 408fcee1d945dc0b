"""Weights that are combined only for an unknown operator, such as the stacked experts of a layer. The operator depends
on all of them in any order, so they are passed to it one by one, and the combined tensor is never computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_map_only

from effsparse_cli.formats.torch.operators import find_operator
from effsparse_cli.formats.torch.tracing.aliasing import written_nodes
from effsparse_cli.formats.torch.values import Arg, LiveValue

COMBINING = {"stack", "cat", "concat"}
REARRANGING = {"transpose", "permute", "t", "mT", "clone", "contiguous", "detach", "alias"}


class Bundle(list[Any]):
    """The values that a constant is combined from. `make` computes the constant."""

    make: Callable[[], Any]


def find_bundles(graph: fx.Graph) -> set[fx.Node]:
    """Return the nodes that combine values or rearrange the result, and that only unknown operators use."""
    written, bundles = written_nodes(graph), set[fx.Node]()
    for node in reversed(graph.nodes):
        candidate = _name(node) in COMBINING | REARRANGING and node not in written and node.users
        if candidate and all(user in bundles or _is_unknown(user) for user in node.users):
            bundles.add(node)
    # Rearranging a single value gains nothing.
    for node in graph.nodes:
        combined = any(operand in bundles for operand in node.all_input_nodes)
        if node in bundles and _name(node) in REARRANGING and not combined:
            bundles.discard(node)
    return bundles


def bundle(operands: Sequence[Any], make: Callable[[], Any]) -> Bundle | None:
    """Return the operands as a bundle, None if something live is among them."""
    flat = [each for value in operands for each in (value if isinstance(value, Bundle) else [value])]
    if any(isinstance(value, LiveValue) for value in flat):
        return None
    made = Bundle(flat)
    made.make = make
    return made


def unbundled(operands: Arg) -> Arg:
    """Replace bundles among operands: by lists if something is live, otherwise by constants, to be evaluated."""
    live = any(isinstance(value, LiveValue) for value in tree_flatten(operands)[0])
    return tree_map_only(Bundle, list if live else whole, operands)


def whole(value: Arg) -> Arg:
    return value.make() if isinstance(value, Bundle) else value


def _name(node: fx.Node) -> str:
    is_operator = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    return node.target.overloadpacket.__name__ if is_operator else ""  # type: ignore[union-attr]


def _is_unknown(node: fx.Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return False
    known = find_operator(target)
    return known is None or known.lower is None
