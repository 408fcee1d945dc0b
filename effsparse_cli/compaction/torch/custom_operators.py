"""Custom operators, which torch's ONNX exporter does not know: each is exported as an ONNX operator of the same name,
so that the graph around it can be analyzed. Such a model cannot be run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from effsparse_cli.formats.torch.tracing.preserve import quiet

TORCH_NAMESPACES = (
    "aten",
    "prim",
    "prims",
    "_operator",
    "higher_order",
    "onnx",
    "onnx_symbolic",
    "torchvision",
    "quantized",
)
TYPES = ("float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
Translations = dict[Callable[..., Any], Callable[..., Any]]


def find_custom(
    model: nn.Module | ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> list[torch._ops.OpOverload]:
    """Return the operators in a model that are not torch's own, none if it cannot be traced."""
    try:
        with quiet():
            program = model if isinstance(model, ExportedProgram) else _traced(model, args, kwargs)
    except Exception:  # tracing runs the model, which may raise anything
        return []
    targets = {node.target for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    return sorted((target for target in targets if target.namespace not in TORCH_NAMESPACES), key=str)


def _traced(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> ExportedProgram:
    return torch.export.export(model, args, dict(kwargs or {}), strict=False)


def translate_custom(operators: list[torch._ops.OpOverload]) -> Translations:
    """Return a translation table for torch.onnx.export."""
    return {operator: _translation(operator) for operator in operators}


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
