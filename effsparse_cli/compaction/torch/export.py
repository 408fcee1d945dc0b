"""Export PyTorch models to ONNX in memory, by torch's own exporter."""

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

from effsparse_cli.compaction.torch.custom_operators import Translations, find_custom, translate_custom
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, quiet, unfused_kernels


def to_onnx(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], faithful: bool = False) -> ModelProto:
    """Export a module without changing it. Stored tensors keep their names; with `faithful`, none is changed or
    lost."""
    _check_exporter()
    with preserved_state(model), unfused_kernels():
        return _export(model, args, dict(kwargs), not faithful)


def program_to_onnx(program: ExportedProgram) -> ModelProto:
    _check_exporter()
    with torch.no_grad():
        return _export(program, (), None, True)


def _check_exporter() -> None:
    if importlib.util.find_spec("onnxscript") is None:
        raise UsageError(
            "compaction exports PyTorch models to ONNX, for which torch needs onnxscript: pip install onnxscript"
        )


def _export(
    model: nn.Module | ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any] | None, optimize: bool
) -> ModelProto:
    try:
        return _export_once(model, args, kwargs, optimize, {})
    except Exception as error:
        custom = find_custom(model, args, kwargs)
        if not custom or optimize:
            raise _export_error(error, custom) from error
    # Without optimization the result is only analyzed, so custom operators may be exported too.
    try:
        return _export_once(model, args, kwargs, optimize, translate_custom(custom))
    except Exception as error:
        raise _export_error(error, ()) from error


def _export_once(
    model: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    optimize: bool,
    translations: Translations,
) -> ModelProto:
    with quiet():
        exported = torch.onnx.export(
            model,
            args,
            kwargs=kwargs,
            dynamo=True,
            optimize=optimize,
            verbose=False,
            custom_translation_table=translations or None,
            input_names=_input_names(model) if isinstance(model, ExportedProgram) else None,
        )
    assert exported is not None
    return exported.model_proto


def _input_names(program: ExportedProgram) -> list[str]:
    """Return the program's own names of its inputs; the exporter would number those of a program from a file."""
    specs = program.graph_signature.input_specs
    return [s.arg.name for s in specs if s.kind == InputKind.USER_INPUT and isinstance(s.arg, TensorArgument)]


def _export_error(error: Exception, custom: Sequence[object]) -> LoadError:
    if custom:
        return LoadError(
            f"ONNX has no operator for {', '.join(map(str, custom))}, so the model cannot be written as ONNX. "
            "A pickled module can be written as a pickled module: -o FILE.pt"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = re.sub(r"\x1b\[[0-9;]*m", "", lines[0])[:300] if lines else type(error).__name__
    return LoadError(
        f"torch cannot export the model to ONNX, which compaction needs: {reason}. Export it yourself and compact that "
        "file."
    )
