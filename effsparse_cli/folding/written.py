"""What was written is read again before it gets its name: a path and what it should hold enter, nothing leaves; what
reads otherwise is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.folding.results import Repaired
from effsparse_cli.folding.rounds import FrontEnd
from effsparse_cli.folding.verify import SEEDS, ChangedError, compare
from effsparse_cli.formats import load
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import kind
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools

NARROWEST = 2.0**-7
"""Dense weights may be wider than the type that is stored: bfloat16 rounds by so much."""


def check_repaired(path: Path, options: LoadOptions, done: Repaired) -> None:
    """The same connections, and the same outputs."""
    model = _opened(path, _plain(options))
    layers = model.graph().layers
    _refuse([name for name, mask in done.masks.items() if (layers[name].kept() != mask).any()])
    compare(done.outputs, [model.outputs(seed) for seed in SEEDS], model.epsilon)


def check_revived(
    path: Path, options: LoadOptions, graph: Graph, masks: Mapping[str, Bools], values: Mapping[str, NDArray[Any]]
) -> None:
    """The same weights: those of the graph, or `values` where there are any, and zeros where nothing is kept."""
    layers = load(path, _plain(options)).layers
    wrong = []
    for name, mask in masks.items():
        own, there = graph.layers[name].values, layers[name].values
        if own is not None and there is not None:
            old = np.where(mask, (values[name] if name in values else own()).reshape(mask.shape), 0)
            new = np.where(layers[name].kept(), there().reshape(mask.shape), 0)
            if not np.allclose(new, old, rtol=NARROWEST, atol=0, equal_nan=True):
                wrong.append(name)
    _refuse(wrong)


def _plain(options: LoadOptions) -> LoadOptions:
    """What was applied to the model that was read stands in the one that was written."""
    return replace(options, masks=None, zero_tol=0.0, zeros_are_pruned=False)


def _refuse(layers: list[str]) -> None:
    if layers:
        raise ChangedError(
            f"what was written reads otherwise than it should in {', '.join(layers[:5])}. It was removed again. Please "
            "report this model"
        )


def _opened(path: Path, options: LoadOptions) -> FrontEnd:
    match kind(path):
        case "onnx":
            from effsparse_cli.folding.onnx.subject import OnnxModel
            from effsparse_cli.formats.onnx.file import open_model

            return OnnxModel(open_model(path), path, options)
        case "exported":
            from effsparse_cli.folding.torch.execute import open_traced
            from effsparse_cli.formats.torch.exported import read_exported

            return open_traced(read_exported(path, options.input_shapes, to_run=True), options)
        case _:
            from torch import nn

            from effsparse_cli.folding.torch.execute import open_live
            from effsparse_cli.formats.torch.arch.attach import attach
            from effsparse_cli.formats.torch.pickled import belonging, read_content

            found = read_content(path, options)
            if isinstance(found, nn.Module):
                return open_live(found, (), {}, options)
            built, fitted = belonging(path, found, options)
            options = replace(options, input_shapes=options.input_shapes or dict(built.shapes))
            return open_live(attach(built.module, fitted), (), {}, options)
