"""PyTorch models, live or from files, become graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from effsparse_cli.errors import EffsparseError, UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.load.options import LoadOptions
from effsparse_cli.load.sniff import kind
from effsparse_cli.load.torch.exported import read_program
from effsparse_cli.load.torch.inputs import example_inputs
from effsparse_cli.load.torch.lower import to_graph
from effsparse_cli.load.torch.pickled import read_module
from effsparse_cli.load.torch.trace import from_exported, trace_module

IN_TRAINING = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


def read(path: Path, options: LoadOptions) -> Graph:
    """A file of torch.save or torch.export.save."""
    if kind(path) != "exported":
        return from_module(read_module(path, options), (), None, options)
    return to_graph(from_exported(read_program(path), shapes=options.input_shapes), options)


def from_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, options: LoadOptions
) -> Graph:
    """A live module, changed in nothing. Without arguments the options' shapes or inferred ones are used."""
    model = getattr(model, "_orig_mod", model)
    notes = _mode_notes(model)
    kwargs = dict(kwargs or {})
    if not args and not kwargs:
        inputs = example_inputs(model, options)
        args, kwargs, notes = inputs.args, inputs.kwargs, [*inputs.notes, *notes]
    try:
        traced = trace_module(model, args, kwargs)
    except EffsparseError:
        raise
    except Exception as error:
        raise UsageError(_does_not_run(args, kwargs, error)) from error
    return to_graph(traced, options, notes)


def _mode_notes(model: nn.Module) -> list[str]:
    if any(isinstance(module, IN_TRAINING) and module.training for module in model.modules()):
        return ["evaluation mode assumed: batch norm uses its stored statistics, dropout is off"]
    return []


def _does_not_run(args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception) -> str:
    tensors = [t for t in tree_flatten((args, dict(kwargs)))[0] if isinstance(t, torch.Tensor)]
    shapes = ", ".join("x".join(map(str, t.shape)) or "a number" for t in tensors)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    return f"the model does not run on input {shapes}: {reason}. Is --input-shape right?"
