"""What was written is read again before it gets its name: a path and what it should hold enter, nothing leaves; what
reads otherwise is an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.compaction.agree import agree
from effsparse_cli.compaction.results import Compaction
from effsparse_cli.folding.verify import SINGLE, ChangedError
from effsparse_cli.formats.options import LoadOptions

if TYPE_CHECKING:
    from torch import nn


def check_onnx(path: Path, done: Compaction) -> None:
    """The file computes in onnxruntime what the model did in memory."""
    import onnx

    from effsparse_cli.compaction.onnx.run import WHOLE, run_apart

    found = run_apart(onnx.load(path), [feeds for feeds, _ in done.trials], done.apart or WHOLE)
    agree([outputs for _, outputs in done.trials], found, SINGLE)


def check_module(path: Path, options: LoadOptions, model: nn.Module) -> None:
    """The file has the tensors that the module has."""
    import torch

    from effsparse_cli.formats.torch.pickled import read_module
    from effsparse_cli.formats.torch.tracing.trace import stored_tensors

    old, new = stored_tensors(model), stored_tensors(read_module(path, replace(options, key="", arch="")))
    if old.keys() != new.keys() or any(not torch.equal(old[name], new[name]) for name in old):
        raise ChangedError("what was written reads otherwise than it should. It was removed again. Please report this")
