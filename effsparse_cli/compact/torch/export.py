"""PyTorch models become ONNX models in memory, by torch's own exporter."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import torch
from onnx import ModelProto
from torch import nn
from torch.export import ExportedProgram

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.load.torch.undisturbed import plain_kernels, quiet, undisturbed


def to_onnx(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], faithful: bool = False) -> ModelProto:
    """The module is left as it was. Stored tensors keep their names; with `faithful` none is changed or lost."""
    _check_exporter()
    with undisturbed(model), plain_kernels():
        return _exported(model, args, dict(kwargs), not faithful)


def program_to_onnx(program: ExportedProgram) -> ModelProto:
    _check_exporter()
    with torch.no_grad():
        return _exported(program, (), None, True)


def _check_exporter() -> None:
    if importlib.util.find_spec("onnxscript") is None:
        raise UsageError(
            "PyTorch models go through ONNX here, for which torch needs onnxscript: pip install onnxscript"
        )


def _exported(
    model: nn.Module | ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any] | None, optimize: bool
) -> ModelProto:
    try:
        with quiet():
            made = torch.onnx.export(model, args, kwargs=kwargs, dynamo=True, optimize=optimize, verbose=False)
            assert made is not None
            return made.model_proto
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0][:300] if lines else type(error).__name__
        raise LoadError(
            f"torch cannot export the model to ONNX, which is how it is looked at here: {reason}. Export it yourself, "
            "and give that file."
        ) from error
