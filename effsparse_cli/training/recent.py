"""Live modules that were analysed lately, with the trace of each for the form of input that it had last, so that
analysing the same module again does not trace it again. A module that goes takes its trace with it."""

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
from effsparse_cli.training.structure import PLAIN

_recent: WeakKeyDictionary[nn.Module, tuple[object, LiveTrace]] = WeakKeyDictionary()


def graph_of(model: nn.Module, example_input: Any, options: LoadOptions) -> Graph:
    """The graph of a live module as it is now."""
    model = getattr(model, "_orig_mod", model)
    args, kwargs = arguments(example_input)
    form = _form(args, kwargs)
    if form is None or type(model).__hash__ is not nn.Module.__hash__:
        return from_module(model, args, kwargs, options)
    known = _recent.get(model)
    live = known[1] if known is not None and known[0] == form else LiveTrace()
    graph = live.graph(model, args, kwargs, options)
    _recent[model] = (form, live)
    return graph


def arguments(example_input: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """What a model is called with: a tensor, a tuple of arguments, or a dict of keyword arguments."""
    if isinstance(example_input, dict):
        return (), dict(example_input)
    return (example_input if isinstance(example_input, tuple) else (example_input,)), {}


def _form(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """All of an input but the numbers in its tensors; None where it cannot be told, or where there is none."""
    leaves, spec = tree_flatten((args, dict(kwargs)))
    forms: list[object] = [spec]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            forms.append((type(leaf), tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device))
        elif isinstance(leaf, (*PLAIN, float)):
            forms.append((type(leaf), leaf))
        else:
            return None
    return forms if leaves else None
