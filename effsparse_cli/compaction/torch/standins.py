"""Operators of torch that no ONNX exporter knows, such as a user's own: for each an ONNX operator of the same name that
stands in its place, so that the graph around it can be looked at. Such a model cannot be run as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from effsparse_cli.formats.torch.tracing.preserve import quiet

OF_TORCH = ("aten", "prim", "prims", "_operator", "higher_order", "onnx", "onnx_symbolic", "torchvision", "quantized")
TYPES = ("float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
Table = dict[Callable[..., Any], Callable[..., Any]]


def find_custom(
    model: nn.Module | ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> list[torch._ops.OpOverload]:
    """The operators in a model that are not torch's own; none where it cannot be traced either."""
    try:
        with quiet():
            program = model if isinstance(model, ExportedProgram) else _traced(model, args, kwargs)
    except Exception:  # tracing runs the model, which may raise anything
        return []
    targets = {node.target for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    return sorted((target for target in targets if target.namespace not in OF_TORCH), key=str)


def _traced(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> ExportedProgram:
    return torch.export.export(model, args, dict(kwargs or {}), strict=False)


def stand_ins(operators: list[torch._ops.OpOverload]) -> Table:
    return {operator: _stand_in(operator) for operator in operators}


def _stand_in(operator: torch._ops.OpOverload) -> Callable[..., Any]:
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
        given = [each for each in (*args, *kwargs.values()) if not isinstance(each, int | float | str | bool | None)]
        return node(*given)

    return translate
