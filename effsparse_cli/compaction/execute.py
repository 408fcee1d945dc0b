"""A model file is compacted in memory: a path enters; what was done, and the smaller model, leave. Nothing is written
here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.compaction.results import Compaction
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import kind

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn


def compact_to_onnx(path: Path, options: LoadOptions) -> tuple[ModelProto, Compaction]:
    _check(options)
    match kind(path):
        case "onnx":
            from effsparse_cli.compaction.onnx.execute import compact_onnx
            from effsparse_cli.formats.onnx.file import open_model

            return compact_onnx(open_model(path), path, options)
        case "exported":
            from effsparse_cli.compaction.torch.execute import program_to_smaller_onnx

            return program_to_smaller_onnx(path, options)
        case _:
            from torch import nn

            from effsparse_cli.compaction.torch.execute import module_to_onnx
            from effsparse_cli.formats.torch.arch.attach import attach
            from effsparse_cli.formats.torch.pickled import belonging, read_content

            found = read_content(path, options, copied=True)
            if isinstance(found, nn.Module):
                return module_to_onnx(found, options)
            built, fitted = belonging(path, found, options)
            options = replace(options, input_shapes=options.input_shapes or dict(built.shapes))
            return module_to_onnx(attach(built.module, fitted), options)


def compact_to_module(path: Path, options: LoadOptions) -> tuple[nn.Module, Compaction]:
    """Only a file that holds a module whole can become a smaller one: tensors alone do not say what they belong to
    once they are smaller than their architecture has them."""
    _check(options)
    from torch import nn

    from effsparse_cli.compaction.torch.execute import compact_module
    from effsparse_cli.formats.torch.pickled import read_content

    found = read_content(path, options, copied=True)
    if not isinstance(found, nn.Module):
        raise UsageError(
            f"{path} holds tensors and no module, and its architecture has no place for smaller ones. Write ONNX, "
            "which has the graph in it: -o FILE.onnx"
        )
    return compact_module(found, (), None, options)


def _check(options: LoadOptions) -> None:
    if options.masks is not None or options.zero_tol:
        raise UsageError(
            "compact cuts what the model's own weights leave unused, and --masks and --zero-tol would change what it "
            "computes. Give a model whose pruned weights are zero"
        )
