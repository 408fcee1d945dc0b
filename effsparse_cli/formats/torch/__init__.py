"""Lower live PyTorch modules to graphs. `files/` opens PyTorch files, `ops/` holds the operator table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from effsparse_cli.errors import EffsparseError, UsageError, first_line
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.inputs import example_inputs
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.tracing.trace import TracedModel, trace_module
from effsparse_cli.graph.graph import Graph

IN_TRAINING = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


def from_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, options: LoadOptions
) -> Graph:
    """Return the graph of a live module. Without arguments, the options' input shapes or inferred ones are used."""
    model = getattr(model, "_orig_mod", model)
    if args or kwargs:
        return lower_live(trace_live(model, args, kwargs or {}), model, options)
    inputs = example_inputs(model, options)
    graph = lower_live(trace_live(model, inputs.args, inputs.kwargs), model, options, inputs.notes)
    return replace(graph, open_dimensions=inputs.open)


def trace_live(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TracedModel:
    """Trace a module; the result can be passed to `lower_live` repeatedly."""
    try:
        return trace_module(model, args, kwargs)
    except EffsparseError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(_does_not_run(args, kwargs, error)) from error


def lower_live(traced: TracedModel, model: nn.Module, options: LoadOptions, notes: Sequence[str] = ()) -> Graph:
    """Return the graph of a module as it is now. Masks, biases and scales are read here, weights later."""
    if any(isinstance(module, IN_TRAINING) and module.training for module in model.modules()):
        notes = [*notes, "evaluation mode assumed: batch norm uses its stored statistics, dropout is off"]
    return lower_traced(traced, options, notes)


def _does_not_run(args: tuple[Any, ...], kwargs: Mapping[str, Any], error: BaseException) -> str:
    tensors = [t for t in tree_flatten((args, dict(kwargs)))[0] if isinstance(t, torch.Tensor)]
    shapes = ", ".join(shape_text(t.shape) for t in tensors)
    return f"the model does not run on input {shapes}: {first_line(error)}. Check --input-shape."


def shape_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a number"
