"""Repair a model file in memory: return what was done, and the changes to write. A written file is read again before
it gets its name, and refused if it does not hold what it should."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.folding.results import RepairResult
from effsparse_cli.folding.rounds import RepairableModel, repair
from effsparse_cli.folding.verify import SEEDS, ChangedError, compare
from effsparse_cli.formats.output import Changes
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools

if TYPE_CHECKING:
    from effsparse_cli.formats.model_file import ModelFile
    from effsparse_cli.formats.onnx.model_file import OnnxFile
    from effsparse_cli.formats.torch.files.exported import ExportedFile
    from effsparse_cli.formats.torch.files.torch_file import TorchFile

NARROWEST = 2.0**-7
"""Rounding error of bfloat16: dense weights may have a wider type than the stored ones."""


def repair_file(file: ModelFile, count_embeddings: bool = False) -> tuple[RepairResult, Changes]:
    """Repair a model whose file was opened with `to_change`.

    Masks that the options name are applied first: the model with them is the one that must not change.
    """
    start: dict[str, Bools] = {}
    options = file.options
    if options.masks is not None or options.zero_tol or options.zeros_are_pruned:
        start = {name: layer.kept() for name, layer in file.graph().layers.items()}
        file = file.with_options(masks=None, zero_tol=0.0, zeros_are_pruned=False)
    model = open_model(file)
    with model.guard():
        done = repair(model, count_embeddings, start)
    return done, model.changes(done.masks)


def open_model(file: ModelFile) -> RepairableModel:
    """Return the model ready to be run and repaired."""
    if file.executable == "onnx":
        from effsparse_cli.folding.onnx.model import open_onnx

        return open_onnx(cast("OnnxFile", file))
    from effsparse_cli.folding.torch.execute import open_file, open_traced

    if file.executable == "program":
        return open_traced(cast("ExportedFile", file).traced(), file.options)
    return open_file(cast("TorchFile", file))


def check_repaired(file: ModelFile, done: RepairResult) -> None:
    """Check that a repaired file has the same connections and outputs as the model in memory."""
    model = open_model(file)
    layers = model.graph().layers
    _refuse([name for name, mask in done.masks.items() if (layers[name].kept() != mask).any()])
    compare(done.outputs, [model.outputs(seed) for seed in SEEDS], model.epsilon)


def check_revived(
    file: ModelFile, graph: Graph, masks: Mapping[str, Bools], values: Mapping[str, NDArray[Any]]
) -> None:
    """Check that a file has the weights of the graph, or `values` where there are any, and zeros where pruned."""
    layers = file.graph().layers
    wrong = []
    for name, mask in masks.items():
        own, there = graph.layers[name].values, layers[name].values
        if own is not None and there is not None:
            old = np.where(mask, (values[name] if name in values else own()).reshape(mask.shape), 0)
            new = np.where(layers[name].kept(), there().reshape(mask.shape), 0)
            if not np.allclose(new, old, rtol=NARROWEST, atol=0, equal_nan=True):
                wrong.append(name)
    _refuse(wrong)


def _refuse(layers: list[str]) -> None:
    if layers:
        raise ChangedError(
            f"the written file does not match the model in {', '.join(layers[:5])} and was removed. Please "
            "report this model"
        )
