"""A model file is repaired in memory: a path enters; what was done, and what is to be written, leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli.folding.results import Repaired
from effsparse_cli.formats import load
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import kind
from effsparse_cli.graph.primitives import Bools

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
    from torch import nn

    from effsparse_cli.folding.onnx.new_bias import NewBias


@dataclass(frozen=True, eq=False)
class NewModule:
    """A module that stands whole in the file, repaired."""

    model: nn.Module


@dataclass(frozen=True, eq=False)
class NewTensors:
    """The tensors of an exported program that are new, by stored name."""

    tensors: Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class NewState:
    """What is kept of weights in a file of tensors, by layer, and its other tensors that are new, by the model's name
    for them."""

    kept: Mapping[str, Bools]
    tensors: Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class NewOnnx:
    """The stored tensors of an ONNX model that are new, by name, and biases for operators that had none."""

    arrays: Mapping[str, Any]
    biases: tuple[NewBias, ...]

    def change(self, model: ModelProto) -> None:
        """In place, what is no stored tensor of the file."""
        from effsparse_cli.folding.onnx.new_bias import add_bias

        for bias in self.biases:
            add_bias(model, bias)


New = NewModule | NewTensors | NewState | NewOnnx


def repair_file(path: Path, options: LoadOptions, count_embeddings: bool = False) -> tuple[Repaired, New]:
    """Masks that the options name are applied first: what they leave is the model that must not change."""
    start: dict[str, Bools] = {}
    if options.masks is not None or options.zero_tol or options.zeros_are_pruned:
        start = {name: layer.kept() for name, layer in load(path, options).layers.items()}
        options = replace(options, masks=None, zero_tol=0.0, zeros_are_pruned=False)
    match kind(path):
        case "onnx":
            return _onnx(path, options, start, count_embeddings)
        case "exported":
            return _exported(path, options, start, count_embeddings)
        case _:
            return _module(path, options, start, count_embeddings)


def _onnx(path: Path, options: LoadOptions, start: Mapping[str, Bools], embeddings: bool) -> tuple[Repaired, New]:
    from effsparse_cli.folding.onnx.execute import repair_onnx

    done, subject = repair_onnx(path, options, embeddings, start)
    return done, NewOnnx(subject.arrays, tuple(subject.biases.values()))


def _exported(path: Path, options: LoadOptions, start: Mapping[str, Bools], embeddings: bool) -> tuple[Repaired, New]:
    from effsparse_cli.folding.torch.execute import repair_traced
    from effsparse_cli.formats.torch.exported import read_exported

    traced = read_exported(path, options.input_shapes, to_run=True)
    done, tensors = repair_traced(traced, options, embeddings, start)
    return done, NewTensors(tensors)


def _module(path: Path, options: LoadOptions, start: Mapping[str, Bools], embeddings: bool) -> tuple[Repaired, New]:
    from torch import nn

    from effsparse_cli.folding.torch.execute import repair_live
    from effsparse_cli.formats.torch.arch.attach import attach
    from effsparse_cli.formats.torch.pickled import belonging, read_content
    from effsparse_cli.formats.torch.stored import Stored
    from effsparse_cli.formats.torch.tracing.trace import stored_tensors

    found = read_content(path, options, copied=True)
    if isinstance(found, nn.Module):
        done, _ = repair_live(found, (), {}, options, embeddings, start=start)
        return done, NewModule(found)
    built, fitted = belonging(path, found, options)
    options = replace(options, input_shapes=options.input_shapes or dict(built.shapes))
    # A file of tensors has no room for a bias that its model does not have.
    done, tensors = repair_live(attach(built.module, fitted), (), {}, options, embeddings, False, start)
    labels = Stored(stored_tensors(built.module), set()).label
    kept = {labels(name): done.masks[labels(name)] for name in tensors if labels(name) in done.masks}
    return done, NewState(kept, {name: tensor for name, tensor in tensors.items() if labels(name) not in kept})
