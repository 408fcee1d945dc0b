"""Check on meta tensors that the operators of a graph accept their arguments and return what the file states."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.constants.evaluate import CannotEvaluateError, results_of
from effsparse_cli.formats.torch.operators import find_operator
from effsparse_cli.formats.torch.pt2.graph import InterpretedGraph
from effsparse_cli.formats.torch.tensors import format_shape

SIZES = {"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "size", "numel", "dim", "stride"}
"""Operators that return sizes instead of tensors."""
AUTOCAST, SUBGRAPH = "wrap_with_autocast", 4
"""In its subgraph, the fifth argument, results have other dtypes than the operators alone would return."""


def verify(graph: InterpretedGraph) -> None:
    other = {str(node.args[SUBGRAPH]) for node in graph.graph.nodes if getattr(node.target, "__name__", "") == AUTOCAST}
    for node in graph.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            _verify_call(node, node.target)
        elif node.op == "get_attr" and node.name not in other:
            inner = graph.get_submodule(str(node.target))
            assert isinstance(inner, InterpretedGraph)
            verify(inner)


def _verify_call(node: fx.Node, target: torch._ops.OpOverload) -> None:
    name = target.overloadpacket.__name__
    known = find_operator(target)
    if known is not None and (known.size_from_values or known.effect == "asserts"):
        return
    if name in SIZES or (name, target._overloadname) == ("repeat_interleave", "Tensor"):
        return
    args = [_value(arg) for arg in node.args]
    kwargs = {name: _value(arg) for name, arg in node.kwargs.items()}
    _check_recurrent(target, args)
    try:
        results = results_of(target, args, kwargs)
    except CannotEvaluateError as error:
        if isinstance(error.__cause__, NotImplementedError):
            return
        reason = str(error.__cause__).strip().partition("\n")[0][:200]
        raise LoadError(f"the program calls {target} with invalid arguments: {reason}") from error
    stated = _flat(node.meta.get("val"))
    if len(stated) != len(results):
        raise LoadError(
            f"the program states {len(stated)} results of {target}, which returns {len(results)}. Export it again."
        )
    picks = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    for i, (expected, found) in enumerate(zip(stated, results, strict=True)):
        # Some operators have unused results that differ between devices.
        if i in picks and not picks[i].users:
            continue
        if isinstance(expected, torch.Tensor) and not _same(expected, found):
            raise LoadError(
                f"the program states that {target} returns {_format(expected)}, but it returns {_format(found)}. The "
                "file is damaged. Export it again."
            )


def _same(one: torch.Tensor, other: Any) -> bool:
    return isinstance(other, torch.Tensor) and (one.shape, one.dtype) == (other.shape, other.dtype)


def _value(arg: Any) -> Any:
    return map_aggregate(arg, lambda leaf: leaf.meta.get("val") if isinstance(leaf, fx.Node) else leaf)


def _flat(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _flat(each)] if isinstance(value, list | tuple) else [value]


def _check_recurrent(target: torch._ops.OpOverload, args: list[Any]) -> None:
    """Check the number of layers: computing the shapes of 10^12 layers would never end."""
    names = [argument.name for argument in target._schema.arguments]
    if "num_layers" in names and "params" in names:
        layers, params = args[names.index("num_layers")], args[names.index("params")]
        if not isinstance(params, list | tuple) or not 0 < layers <= len(params):
            raise LoadError(f"the program calls {target} with {layers} layers and too few weights. Export it again.")


def _format(tensor: Any) -> str:
    if not isinstance(tensor, torch.Tensor):
        return "something that is not a tensor"
    return f"{format_shape(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
