"""Compact a model file in memory: return the smaller model and what was done. A written file is read again before it
gets its name, and refused if it does not match the model in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.errors import UsageError
from effsparse_cli.folding.verify import SINGLE, ChangedError, compare
from effsparse_cli.formats.options import LoadOptions

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

    from effsparse_cli.formats.model_file import ModelFile
    from effsparse_cli.formats.onnx.model_file import OnnxFile
    from effsparse_cli.formats.torch.files.exported import ExportedFile
    from effsparse_cli.formats.torch.files.torch_file import TorchFile


def compact_to_onnx(file: ModelFile) -> tuple[ModelProto, CompactResult]:
    """Return the smaller model as ONNX, whatever the file holds."""
    _check(file.options)
    if file.executable == "onnx":
        from effsparse_cli.compaction.onnx.execute import compact_onnx

        return compact_onnx(cast("OnnxFile", file).whole_model(), file.path, file.options)
    from effsparse_cli.compaction.torch.execute import module_to_onnx, program_to_smaller_onnx

    if file.executable == "program":
        return program_to_smaller_onnx(cast("ExportedFile", file))
    return module_to_onnx(file.module(), cast("TorchFile", file).module_options())


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


def _check(options: LoadOptions) -> None:
    if options.masks is not None or options.zero_tol:
        raise UsageError(
            "compact keeps the outputs of the model, and --masks and --zero-tol would change them. Pass a model whose "
            "pruned weights are zero"
        )


def check_onnx(path: Path, done: CompactResult) -> None:
    """Check that the file computes in onnxruntime what the model did in memory."""
    import onnx

    from effsparse_cli.compaction.onnx.run import ALL_RUNNABLE, run_model

    found = run_model(onnx.load(path), [feeds for feeds, _ in done.trials], done.unrunnable or ALL_RUNNABLE)
    compare([outputs for _, outputs in done.trials], found, SINGLE, "smaller")


def check_module(file: ModelFile, model: nn.Module) -> None:
    """Check that the file has the tensors of the module."""
    import torch

    from effsparse_cli.formats.torch.tracing.trace import stored_tensors

    old, new = stored_tensors(model), stored_tensors(file.module())
    if old.keys() != new.keys() or any(not torch.equal(old[name], new[name]) for name in old):
        raise ChangedError("the written file does not match the model and was removed. Please report this")
