"""PyTorch models become ONNX models in memory, by torch's own exporter."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from onnx import ModelProto
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

from effsparse_cli.compaction.torch.standins import Table, find_custom, stand_ins
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, quiet, unfused_kernels


def to_onnx(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], faithful: bool = False) -> ModelProto:
    """The module is left as it was. Stored tensors keep their names; with `faithful` none is changed or lost."""
    _check_exporter()
    with preserved_state(model), unfused_kernels():
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
        return _translated(model, args, kwargs, optimize, {})
    except Exception as error:
        custom = find_custom(model, args, kwargs)
        if not custom or optimize:
            raise _not_exported(error, custom) from error
    # Without optimisation the result is only looked at, so that an operator may stand for one that ONNX lacks.
    try:
        return _translated(model, args, kwargs, optimize, stand_ins(custom))
    except Exception as error:
        raise _not_exported(error, ()) from error


def _translated(
    model: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    optimize: bool,
    table: Table,
) -> ModelProto:
    with quiet():
        made = torch.onnx.export(
            model,
            args,
            kwargs=kwargs,
            dynamo=True,
            optimize=optimize,
            verbose=False,
            custom_translation_table=table or None,
            input_names=_input_names(model) if isinstance(model, ExportedProgram) else None,
        )
    assert made is not None
    return made.model_proto


def _input_names(program: ExportedProgram) -> list[str]:
    """As the program calls its inputs: the exporter itself numbers those of a program that was read from a file."""
    specs = program.graph_signature.input_specs
    return [s.arg.name for s in specs if s.kind == InputKind.USER_INPUT and isinstance(s.arg, TensorArgument)]


def _not_exported(error: Exception, custom: Sequence[object]) -> LoadError:
    if custom:
        return LoadError(
            f"ONNX has no operator for {', '.join(map(str, custom))}, so the model cannot become an ONNX file. A "
            "pickled module can be written as one again: -o FILE.pt"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = re.sub(r"\x1b\[[0-9;]*m", "", lines[0])[:300] if lines else type(error).__name__
    return LoadError(
        f"torch cannot export the model to ONNX, which is how it is looked at here: {reason}. Export it yourself, and "
        "give that file."
    )
