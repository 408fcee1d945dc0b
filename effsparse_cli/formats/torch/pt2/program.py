"""Read an exported program from a file: its graph, the roles of its inputs, its stored tensors and the names of its
outputs. The sizes of its inputs are those of the user, or those of the export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import RefusedError, UsageError
from effsparse_cli.formats.torch.checkpoint.content import EXPORT_AGAIN, damage_on_error
from effsparse_cli.formats.torch.pt2.archive import ProgramContent
from effsparse_cli.formats.torch.pt2.graph import CONSTANTS, GraphReader
from effsparse_cli.formats.torch.pt2.parse import as_int, as_text, only, parse
from effsparse_cli.formats.torch.pt2.sizes import Sizes, UnknownSizeError, find_open_sizes, symbol_of
from effsparse_cli.formats.torch.pt2.verify import verify
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel, output_names
from effsparse_cli.graph.primitives import Shape

GENERAL_SIZE = 2
"""torch treats all sizes from 2 on alike, so a lower bound of 2 says nothing about the model."""


def read_program(
    content: ProgramContent, path: Path, shapes: Mapping[str, Shape] | None = None, to_run: bool = False
) -> TracedModel:
    """Build the program from an opened archive. With `to_run`, its operators are checked first."""
    with damage_on_error(path, EXPORT_AGAIN):
        module = content.program["graph_module"]
        specs = [only(spec) for spec in module["signature"]["input_specs"]]
        sizes = Sizes(bounds=_read_bounds(content.program.get("range_constraints") or {}))
        _choose_sizes(sizes, module["graph"], specs, shapes or {})
        module_graph = GraphReader(module["graph"], sizes).read([_input_name(spec) for spec in specs])
        if to_run:
            verify(module_graph)
        nodes = [node for node in module_graph.graph.nodes if node.op == "placeholder"]
        leaves = {node.name: _read_leaf(spec, node, content) for node, spec in zip(nodes, specs, strict=True)}
        parameters = {as_text(spec["parameter_name"]) for kind, spec in specs if kind == "parameter"}
        axes = {name: module["graph"]["tensor_values"][name]["sizes"] for name in _input_names(specs)}
        traced = TracedModel(module_graph.graph, leaves, content.stored, parameters, _output_names(module))
        return replace(traced, open=find_open_sizes(axes, sizes))


def _input_name(spec: tuple[str, Any]) -> str:
    kind, value = spec
    if kind == "constant_input":
        return as_text(value["name"])
    argument = value["arg"]
    if kind == "user_input":
        argument = only(argument)[1]
    return argument.get("name", argument.get("as_name", "")) if isinstance(argument, Mapping) else ""


def _input_names(specs: list[tuple[str, Any]]) -> list[str]:
    """Return the names of the inputs that are tensors."""
    inputs = [only(value["arg"]) for kind, value in specs if kind == "user_input"]
    return [as_text(value["name"]) for kind, value in inputs if kind == "as_tensor"]


def _read_leaf(spec: tuple[str, Any], node: Any, content: ProgramContent) -> Any:
    kind, value = spec
    if kind not in ("constant_input", "user_input") and value["arg"].get("name") != node.name:
        raise ValueError("the signature and the graph have different inputs")
    match kind:
        case "user_input":
            return Input(node.name) if isinstance(node.meta["val"], torch.Tensor) else node.meta["val"]
        case "constant_input":
            return CONSTANTS[only(value["value"])[0]](only(value["value"])[1])
        case "parameter" | "buffer" | "tensor_constant":
            return _read_stored_leaf(as_text(value[f"{kind}_name"]), node, content)
        case "custom_obj" | "token":
            return None
    raise ValueError(f"an input has the unknown kind {kind}")


def _read_stored_leaf(name: str, node: Any, content: ProgramContent) -> StoredTensor | HeldTensor:
    tensor = content.stored[name] if name in content.stored else content.constants[name]
    if (tensor.shape, tensor.dtype) != (node.meta["val"].shape, node.meta["val"].dtype):
        raise ValueError(f"{name} is stored with a different shape or type than in the graph")
    return StoredTensor(name) if name in content.stored else HeldTensor(name, tensor)


def _output_names(module: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the outputs; results that only update buffers have none."""
    kinds = [only(spec)[0] for spec in module["signature"]["output_specs"]]
    signature = next((entry["signature"] for entry in module["module_call_graph"] if entry["fqn"] == ""), None)
    names = [f"output_{i}" for i in range(len(kinds))]
    for entry in module["module_call_graph"]:
        if entry["signature"] is not None:
            read_structure(entry["signature"]["in_spec"], {})
            read_structure(entry["signature"]["out_spec"], {})
    if signature is not None:
        names = output_names(read_structure(signature["out_spec"], module.get("treespec_namedtuple_fields") or {}))
    remaining = iter(names)
    return tuple(next(remaining) if kind == "user_output" else "" for kind in kinds)


def _read_bounds(written: Mapping[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    def bound(value: Any) -> int | None:
        return None if value is None else as_int(value)

    for symbol in written:
        if symbol_of(symbol) is None:
            raise RefusedError(f"{symbol[:100]!r} is not a valid symbol for a size.")
    return {str(symbol_of(name)): (bound(each["min_val"]), bound(each["max_val"])) for name, each in written.items()}


def _choose_sizes(sizes: Sizes, graph: Any, specs: list[tuple[str, Any]], wanted: Mapping[str, Shape]) -> None:
    """Give every symbol the size that the user passes for it, or that of the export."""
    names = _input_names(specs)
    shapes = {(names or [""])[0] if name == "" else name: shape for name, shape in wanted.items()}
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise UsageError(f"the program has no input {', '.join(unknown)}. Its inputs are {', '.join(names)}.")
    for name in names:
        exported = graph["tensor_values"][name]["sizes"]
        shape = shapes.get(name, (None,) * len(exported))
        if len(shape) != len(exported):
            raise _fixed_shape_error(name, exported, shape)
        for size, chosen in zip(exported, shape, strict=True):
            _choose(sizes, size, chosen)
    for name, shape in shapes.items():
        exported = graph["tensor_values"][name]["sizes"]
        if tuple(sizes.size(size) for size in exported) != tuple(shape):
            raise _fixed_shape_error(name, exported, shape)
    _check_bounds(sizes)


def _choose(sizes: Sizes, size: Any, chosen: int | None) -> None:
    kind, value = only(size)
    symbol = None
    if kind == "as_expr":
        try:
            symbol = symbol_of(value["expr_str"])
        except UnknownSizeError:
            return
    if symbol is None or symbol in sizes.symbols:
        return
    if chosen is not None:
        sizes.symbols[symbol] = chosen
    elif value.get("hint") is not None:
        sizes.symbols[symbol] = as_int(only(value["hint"])[1])


def _check_bounds(sizes: Sizes) -> None:
    for symbol, value in sizes.symbols.items():
        low, high = sizes.bounds.get(symbol, (None, None))
        if (low is not None and value < low and low > GENERAL_SIZE) or (high is not None and value > high):
            raise UsageError(
                f"the program was exported for sizes from {0 if low is None else low} to "
                f"{'any' if high is None else high}, not {value}. Pass another --input-shape."
            )


def _fixed_shape_error(name: str, exported: Any, shape: Any) -> UsageError:
    def text(size: Any) -> str:
        kind, value = only(size)
        return str(value) if kind == "as_int" else (symbol_of(value["expr_str"]) or "?")

    fixed = "x".join(text(size) for size in exported)
    return UsageError(
        f"the exported program has fixed shapes: {name} has shape {fixed}, not {'x'.join(map(str, shape))}."
    )


@dataclass(frozen=True)
class Structure:
    """The part of a pytree spec that `outputs.names` needs; `context` are the keys of the children, if any."""

    context: list[str] | None
    inside: tuple[Structure, ...]
    leaf: bool

    def is_leaf(self) -> bool:
        return self.leaf

    def children(self) -> list[Structure]:
        return list(self.inside)


def read_structure(text: str, fields: Mapping[str, Any]) -> Structure:
    """Parse a structure; `fields` are the field names of named tuples by type."""
    version, written = parse(as_text(text))
    if version != 1:
        raise ValueError(f"structures of version {version} are not supported")
    return _read_node(written, fields)


def _read_node(written: Mapping[str, Any], fields: Mapping[str, Any]) -> Structure:
    if written["type"] is None:
        return Structure(None, (), True)
    children = tuple(_read_node(child, fields) for child in written["children_spec"])
    return Structure(_keys(written, len(children), fields), children, False)


def _keys(written: Mapping[str, Any], count: int, fields: Mapping[str, Any]) -> list[str] | None:
    """Return the keys of the children, if all of them have one."""
    named = fields.get(written["type"])
    keys = _parse_context(written["context"]) if named is None else named["field_names"]
    if isinstance(keys, list) and len(keys) != count and len(keys) == 2 and isinstance(keys[0], list):
        keys = keys[0]
    if not isinstance(keys, list) or len(keys) != count or not all(isinstance(key, str | int) for key in keys):
        return None
    return [str(key) for key in keys]


def _parse_context(text: Any) -> Any:
    """Parse keys, which are strings or numbers; torch would import the classes of others."""
    context = parse(as_text(text))
    allowed = True
    if isinstance(context, dict) and "dict_context" in context:
        allowed = context.get("default_factory_module") in (None, "builtins")
        context = context["dict_context"]
    keys = context if isinstance(context, list) else [context]
    if not allowed or any(isinstance(key, dict) and "__enum__" in key for key in keys):
        raise RefusedError("the structure of the outputs refers to a class to import. None of its code was run.")
    return context
