"""Compact a model file in memory: return the smaller model and what was done. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

    from effsparse_cli.formats.model_file import ModelFile


def compact_to_onnx(file: ModelFile) -> tuple[ModelProto, CompactResult]:
    """Return the smaller model as ONNX, whatever the file holds."""
    _check(file.options)
    return TO_ONNX[file.executable](file)


def compact_to_module(file: ModelFile) -> tuple[nn.Module, CompactResult]:
    """Return the smaller module of a file that holds a module whole.

    Tensors alone cannot become smaller: their architecture fixes their sizes.
    """
    _check(file.options)
    from effsparse_cli.compaction.torch.execute import compact_module
    from effsparse_cli.formats.torch.files.torch_file import TorchFile

    if not isinstance(file, TorchFile) or not file.holds_module:
        raise UsageError(
            f"{file.path} contains tensors but no module, and its architecture fixes their shapes. Write ONNX, which "
            "contains the graph: -o FILE.onnx"
        )
    return compact_module(file.module(), (), None, file.options)


def _onnx(file: ModelFile) -> tuple[ModelProto, CompactResult]:
    from effsparse_cli.compaction.onnx.execute import compact_onnx
    from effsparse_cli.formats.onnx.model_file import OnnxFile

    assert isinstance(file, OnnxFile)
    return compact_onnx(file.whole_model(), file.path, file.options)


def _program(file: ModelFile) -> tuple[ModelProto, CompactResult]:
    from effsparse_cli.compaction.torch.execute import program_to_smaller_onnx
    from effsparse_cli.formats.torch.files.exported import ExportedFile

    assert isinstance(file, ExportedFile)
    return program_to_smaller_onnx(file)


def _module(file: ModelFile) -> tuple[ModelProto, CompactResult]:
    from effsparse_cli.compaction.torch.execute import module_to_onnx
    from effsparse_cli.formats.torch.files.torch_file import TorchFile

    assert isinstance(file, TorchFile)
    return module_to_onnx(file.module(), file.module_options())


TO_ONNX: dict[str, Callable[[ModelFile], tuple[ModelProto, CompactResult]]] = {
    "onnx": _onnx,
    "program": _program,
    "module": _module,
}
"""Keyed by how the model is represented in memory."""


def _check(options: LoadOptions) -> None:
    if options.masks is not None or options.zero_tol:
        raise UsageError(
            "compact keeps the outputs of the model, and --masks and --zero-tol would change them. Pass a model whose "
            "pruned weights are zero"
        )
