"""Export PyTorch models to ONNX in memory, by torch's own exporter. A custom operator, which it does not know, becomes
an ONNX operator of the same name, so that the graph around it can be analyzed; such a model cannot be run."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from onnx import ModelProto
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

from effsparse_cli.errors import LoadError, UsageError, first_line
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, quiet, unfused_kernels

NAMESPACES = ("aten", "prim", "prims", "_operator", "higher_order", "onnx", "onnx_symbolic", "torchvision", "quantized")
"""Those of operators that the exporter knows."""
TYPES = ("float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def to_onnx(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], faithful: bool = False) -> ModelProto:
    """Export a module. Stored tensors keep their names; with `faithful`, none is changed or lost."""
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
    names = _input_names(model) if isinstance(model, ExportedProgram) else None
    export = partial(torch.onnx.export, model, args, kwargs=kwargs, dynamo=True, verbose=False, input_names=names)
    try:
        with quiet():
            exported = export(optimize=optimize)
    except Exception as error:
        custom = _find_custom(model, args, kwargs)
        if not custom or optimize:
            raise _export_error(error, custom) from error
        # Without optimization the result is only analyzed, so custom operators may be exported too.
        translations: dict[Callable[..., Any], Callable[..., Any]] = {
            operator: _translation(operator) for operator in custom
        }
        try:
            with quiet():
                exported = export(optimize=False, custom_translation_table=translations)
        except Exception as again:
            raise _export_error(again, ()) from again
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
    reason = re.sub(r"\x1b\[[0-9;]*m", "", first_line(error, 1000))[:300]
    return LoadError(
        f"torch cannot export the model to ONNX, which compaction needs: {reason}. Export it yourself and compact that "
        "file."
    )


def _find_custom(
    model: nn.Module | ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> list[torch._ops.OpOverload]:
    """Return the operators in a model that are not torch's own, none if it cannot be traced."""
    if isinstance(model, nn.Module):
        try:
            with quiet():
                model = torch.export.export(model, args, dict(kwargs or {}), strict=False)
        except Exception:  # tracing runs the model, which may raise anything
            return []
    targets = {node.target for node in model.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    return sorted((target for target in targets if target.namespace not in NAMESPACES), key=str)


def _translation(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    from onnx.defs import OpSchema
    from onnxscript import values

    name = operator._schema.name.split("::")[-1]
    several = OpSchema.FormalParameterOption.Variadic
    schema = OpSchema(
        name,
        operator.namespace,
        1,
        inputs=[OpSchema.FormalParameter("inputs", "T", param_option=several, is_homogeneous=False)],
        outputs=[OpSchema.FormalParameter(f"output{i}", "T") for i in range(len(operator._schema.returns))],
        type_constraints=[("T", [f"tensor({kind})" for kind in TYPES], "")],
    )
    node = values.Op(values.Opset(operator.namespace, 1), name, schema)

    def translate(*args: Any, **kwargs: Any) -> Any:
        # Numbers and flags change what it computes, but not what it reads.
        tensors = [each for each in (*args, *kwargs.values()) if not isinstance(each, int | float | str | bool | None)]
        return node(*tensors)

    return translate
