"""Traces of recently analysed live modules, so that analysing the same module again does not trace it again.

There is one trace per module, for the last kind of input; it is dropped together with the module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.training.live import LiveTrace
from effsparse_cli.training.structure import SIMPLE_TYPES

_recent: WeakKeyDictionary[nn.Module, tuple[object, LiveTrace]] = WeakKeyDictionary()


def build_graph(model: nn.Module, example_input: Any, options: LoadOptions) -> Graph:
    """Return the graph of a live module as it is now."""
    model = getattr(model, "_orig_mod", model)
    args, kwargs = split_arguments(example_input)
    signature = _signature(args, kwargs)
    if signature is None or type(model).__hash__ is not nn.Module.__hash__:
        return from_module(model, args, kwargs, options)
    known = _recent.get(model)
    live = known[1] if known is not None and known[0] == signature else LiveTrace()
    graph = live.graph(model, args, kwargs, options)
    _recent[model] = (signature, live)
    return graph


def split_arguments(example_input: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Split an example input into positional and keyword arguments."""
    if isinstance(example_input, dict):
        return (), dict(example_input)
    return (example_input if isinstance(example_input, tuple) else (example_input,)), {}


def _signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """Return everything about an input except the values of its tensors; None for unknown types and for no input."""
    leaves, spec = tree_flatten((args, dict(kwargs)))
    signature: list[object] = [spec]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            signature.append((type(leaf), tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device))
        elif isinstance(leaf, (*SIMPLE_TYPES, float)):
            signature.append((type(leaf), leaf))
        else:
            return None
    return signature if leaves else None
