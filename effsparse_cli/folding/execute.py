"""Repair a model file in memory: return what was done, and the changes to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from effsparse_cli.folding.results import RepairResult
from effsparse_cli.folding.rounds import RepairableModel, repair
from effsparse_cli.formats.output import Changes
from effsparse_cli.graph.primitives import Bools

if TYPE_CHECKING:
    from effsparse_cli.formats.model_file import ModelFile


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
    return FRONT_ENDS[file.executable](file)


def _open_onnx(file: ModelFile) -> RepairableModel:
    from effsparse_cli.folding.onnx.model import open_onnx
    from effsparse_cli.formats.onnx.model_file import OnnxFile

    assert isinstance(file, OnnxFile)
    return open_onnx(file)


def _open_program(file: ModelFile) -> RepairableModel:
    from effsparse_cli.folding.torch.execute import open_traced
    from effsparse_cli.formats.torch.files.exported import ExportedFile

    assert isinstance(file, ExportedFile)
    return open_traced(file.traced(), file.options)


def _open_module(file: ModelFile) -> RepairableModel:
    from effsparse_cli.folding.torch.execute import open_file
    from effsparse_cli.formats.torch.files.torch_file import TorchFile

    assert isinstance(file, TorchFile)
    return open_file(file)


FRONT_ENDS: dict[str, Callable[[ModelFile], RepairableModel]] = {
    "onnx": _open_onnx,
    "program": _open_program,
    "module": _open_module,
}
"""By what the model is in memory."""
