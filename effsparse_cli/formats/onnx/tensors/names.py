"""Layer names: a model in, a name for each stored tensor out. Exporters keep most names: "fc1.weight"
is the layer "fc1". A name that they made up ("onnx::MatMul_12") gives way to the module in the operator's name."""

from __future__ import annotations

import re

from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto

from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.tensors.keys import Key, User, tensors

MADE_UP = re.compile(r"onnx::\w+|\d+|val_\d+\w*|(.*[/_])?[Cc]onstant(_\d+)?|.*_output_0")
OPERATOR = re.compile(r"[A-Z][A-Za-z]*")
NO_WEIGHTS = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING)


def layer_names(model: ModelProto) -> dict[Key, str]:
    """Return a unique name for each stored tensor. Matrices choose first; repeated names get a number."""
    stored = sorted(tensors(model), key=lambda item: len(item[1].dims) < 2)
    names: dict[Key, str] = {}
    taken: set[str] = set()
    for key, tensor, user in stored:
        name = layer_name(str(key[-1]), user if user is not None and _may_be_weight(tensor, user) else None)
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        taken.add(unique)
        names[key] = unique
    return names


def _may_be_weight(tensor: TensorProto | SparseTensorProto, user: User) -> bool:
    """Indices, shapes and summands are not named after an operator, which leaves its name to the weight."""
    data_type = tensor.data_type if isinstance(tensor, TensorProto) else tensor.values.data_type
    operator = find_operator(user.node)
    return len(tensor.dims) > 1 and data_type not in NO_WEIGHTS and (operator is None or operator.names_layers)


def layer_name(tensor: str, user: User | None) -> str:
    """Return the layer name of a stored tensor; `user` is the operator that it may be named after."""
    tensor = tensor.removesuffix("_quantized")
    if user is not None and MADE_UP.fullmatch(tensor):
        module, operator = _module(user.node), find_operator(user.node)
        role = operator.roles.get(user.position, "") if operator is not None else ""
        return (f"{module}.{role}" if role else module) if module else tensor
    return tensor.removesuffix(".weight") or tensor


def _module(node: NodeProto) -> str:
    """Return the module of a node: torch leaves it in the metadata, or in the name: "/encoder/encoder.0/fc/MatMul"."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            scopes = re.findall(r"'([^']*)'", entry.value)
            return scopes[-2] if len(scopes) > 1 else ""
    if not node.name.startswith("/"):
        return ""
    path: list[str] = []
    for part in node.name.strip("/").split("/"):
        if path and part.startswith(path[-1] + "."):
            path.pop()
        path.append(part)
    path[-1] = path[-1].removesuffix("_quant")
    return ".".join(path[:-1] if OPERATOR.fullmatch(path[-1]) else path)
