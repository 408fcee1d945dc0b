"""PyTorch models, live or from files, become graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from effsparse_cli.errors import EffsparseError, LoadError, NothingToMeasureError, UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import kind
from effsparse_cli.formats.torch.arch import attach
from effsparse_cli.formats.torch.arch.built_in.table import BUILT_IN
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.exported import read_exported
from effsparse_cli.formats.torch.inputs.examples import example_inputs, open_axes
from effsparse_cli.formats.torch.lowering.lower import to_graph
from effsparse_cli.formats.torch.pickled import belonging, read_content
from effsparse_cli.formats.torch.pt2.parse import described_by
from effsparse_cli.formats.torch.tracing.trace import Traced, stored_tensors, trace_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.open_dimensions import OpenDimensions
from effsparse_cli.graph.primitives import Shape

IN_TRAINING = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


def read(path: Path, options: LoadOptions) -> Graph:
    """A file of torch.save or torch.export.save, or one of tensors whose model --arch gives."""
    if kind(path) == "exported":
        if options.arch:
            raise UsageError(f"{path} is an exported program, which has its own graph: leave --arch away")
        traced = read_exported(path, options.input_shapes)
        with described_by(path):
            return replace(to_graph(traced, options), open_dimensions=None if options.input_shapes else traced.open)
    found = read_content(path, options)
    if isinstance(found, nn.Module):
        return from_module(found, (), None, options)
    return _from_tensors(path, found, options)


def _from_tensors(path: Path, found: Checkpoint, options: LoadOptions) -> Graph:
    built, fitted = belonging(path, found, options)
    shapes, notes = options.input_shapes, list(fitted.notes)
    if not shapes:
        shapes = dict(built.shapes)
        notes += [f"input shape {_dims(shape)}, the usual one of this model" for shape in shapes.values()]
        notes += built.notes
    with_shapes = replace(options, input_shapes=shapes)
    try:
        graph = attach.to_graph(built.module, fitted, lambda module: from_module(module, (), None, with_shapes))
    except UsageError as error:
        if options.input_shapes or options.arch:
            raise
        raise LoadError(str(error)) from error
    opened = graph.open_dimensions if options.input_shapes or not built.shapes else _open_tokens(shapes)
    return replace(graph, notes=(*graph.notes, *notes), open_dimensions=opened)


def _open_tokens(shapes: Mapping[str, Shape]) -> OpenDimensions | None:
    """Of a model with usual shapes, only the number of tokens is arbitrary."""
    return open_axes(shapes, {name: (1,) for name, shape in shapes.items() if name.endswith("ids") and len(shape) == 2})


def leaves_open(path: Path, options: LoadOptions) -> bool:
    """Might the model leave sizes open that the options do not fix?"""
    if options.input_shapes:
        return False
    if kind(path) == "exported":
        return read_exported(path).open is not None
    found = read_content(path, options)
    if isinstance(found, nn.Module):
        return example_inputs(getattr(found, "_orig_mod", found), options).open is not None
    return options.arch not in BUILT_IN


def read_weights(path: Path, options: LoadOptions) -> Graph:
    """The tensors of a file that can be weights, connected to nothing."""
    found = read_content(path, options, traced=False)
    raw = Checkpoint(stored_tensors(found)) if isinstance(found, nn.Module) else found
    tensors = resolve(raw, external_masks=options.masks is not None)
    layers = {name: attach.late_layer(tensors, name) for name in tensors.tensors if _may_be_weight(tensors, name)}
    if not layers:
        raise NothingToMeasureError(f"{path} holds no tensor that can be a weight, floating and of two or more axes")
    return Graph((), (), layers, notes=tensors.notes)


def _may_be_weight(checkpoint: Checkpoint, name: str) -> bool:
    tensor = checkpoint.tensors[name]
    return tensor.ndim > 1 and (tensor.is_floating_point() or tensor.is_quantized or name in checkpoint.values)


def from_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, options: LoadOptions
) -> Graph:
    """A live module, changed in nothing. Without arguments the options' shapes or inferred ones are used."""
    model = getattr(model, "_orig_mod", model)
    if args or kwargs:
        return lower_live(trace_live(model, args, kwargs or {}), model, options)
    inputs = example_inputs(model, options)
    graph = lower_live(trace_live(model, inputs.args, inputs.kwargs), model, options, inputs.notes)
    return replace(graph, open_dimensions=inputs.open)


def trace_live(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Traced:
    """The module's operators, as often as wanted for `lower_live`."""
    try:
        return trace_module(model, args, kwargs)
    except EffsparseError:
        raise
    except Exception as error:
        raise UsageError(_does_not_run(args, kwargs, error)) from error


def lower_live(traced: Traced, model: nn.Module, options: LoadOptions, notes: Sequence[str] = ()) -> Graph:
    """The graph of a module as it is now: masks, biases and scales are read here, weights when they are asked for."""
    return to_graph(traced, options, [*notes, *_mode_notes(model)])


def _mode_notes(model: nn.Module) -> list[str]:
    if any(isinstance(module, IN_TRAINING) and module.training for module in model.modules()):
        return ["evaluation mode assumed: batch norm uses its stored statistics, dropout is off"]
    return []


def _does_not_run(args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception) -> str:
    tensors = [t for t in tree_flatten((args, dict(kwargs)))[0] if isinstance(t, torch.Tensor)]
    shapes = ", ".join(_dims(t.shape) for t in tensors)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    return f"the model does not run on input {shapes}: {reason}. Is --input-shape right?"


def _dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a number"
