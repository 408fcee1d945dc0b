"""Repair a model file in memory: return what was done, and the changes to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from effsparse_cli.folding.results import RepairResult
from effsparse_cli.folding.rounds import RepairableModel, repair
from effsparse_cli.formats.output import Changes
from effsparse_cli.graph.primitives import Bools

if TYPE_CHECKING:
    from effsparse_cli.formats.model_file import ModelFile
    from effsparse_cli.formats.onnx.model_file import OnnxFile
    from effsparse_cli.formats.torch.files.exported import ExportedFile
    from effsparse_cli.formats.torch.files.torch_file import TorchFile


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
