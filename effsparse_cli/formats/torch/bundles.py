"""Weights that are only put together for an unknown operator, such as the stacked experts of a layer: the operator
depends on all of them wherever they stand, so they enter it one by one and the whole is never made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_map_only

from effsparse_cli.formats.torch.operators import find_operator
from effsparse_cli.formats.torch.tracing.aliasing import written_nodes
from effsparse_cli.formats.torch.values import Arg, LiveValue

ASSEMBLING = {"stack", "cat", "concat"}
REARRANGING = {"transpose", "permute", "t", "mT", "clone", "contiguous", "detach", "alias"}


class Bundle(list[Any]):
    """The values that a constant is put together from. `make` puts it together after all."""

    make: Callable[[], Any]


def find_bundles(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that put values together or rearrange the result, and that lead to unknown operators alone."""
    written, found = written_nodes(graph), set[fx.Node]()
    for node in reversed(graph.nodes):
        can_be = _name(node) in ASSEMBLING | REARRANGING and node not in written and node.users
        if can_be and all(user in found or _is_unknown(user) for user in node.users):
            found.add(node)
    # Without anything put together there is nothing to gain.
    for node in graph.nodes:
        if node in found and _name(node) in REARRANGING and not any(given in found for given in node.all_input_nodes):
            found.discard(node)
    return found


def bundle(operands: Sequence[Any], make: Callable[[], Any]) -> Bundle | None:
    """None if something live is among the operands: then the result is no constant."""
    flat = [each for value in operands for each in (value if isinstance(value, Bundle) else [value])]
    if any(isinstance(value, LiveValue) for value in flat):
        return None
    made = Bundle(flat)
    made.make = make
    return made


def unbundled(operands: Arg) -> Arg:
    """What an unknown operator gets: plain lists beside something live, otherwise what the operator can be run with."""
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
