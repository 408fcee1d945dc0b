"""Read a compacted file again before it gets its name, and raise if it does not match the model in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.folding.verify import SINGLE, ChangedError, compare

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.formats.model_file import ModelFile


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
