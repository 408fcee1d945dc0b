"""An exported program from a file: its graph, what its inputs stand for, its stored tensors and the names of its
outputs. The sizes of its inputs are the user's, or those that it was exported with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import RefusedError, UsageError
from effsparse_cli.formats.torch.pt2.archive import Content
from effsparse_cli.formats.torch.pt2.graph import PLAIN, GraphReader
from effsparse_cli.formats.torch.pt2.opened import find_open
from effsparse_cli.formats.torch.pt2.parse import as_int, as_text, described_by, only
from effsparse_cli.formats.torch.pt2.sizes import Sizes, UnknownSizeError, symbol_of
from effsparse_cli.formats.torch.pt2.structure import read_structure
from effsparse_cli.formats.torch.pt2.verify import verify
from effsparse_cli.formats.torch.tracing.outputs import output_names
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel
from effsparse_cli.graph.primitives import Shape

SPECIALISED = 2
"""Sizes from here on are the general case for torch: a lower bound of two says nothing about the model."""


def read_program(
    content: Content, path: Path, shapes: Mapping[str, Shape] | None = None, to_run: bool = False
) -> TracedModel:
    """Build the program from an opened archive. With `to_run`, its operators are checked first."""
    with described_by(path):
        module = content.program["graph_module"]
        specs = [only(spec) for spec in module["signature"]["input_specs"]]
        sizes = Sizes(bounds=_bounds(content.program.get("range_constraints") or {}))
        _choose_sizes(sizes, module["graph"], specs, shapes or {})
        body = GraphReader(module["graph"], sizes).read([_input_name(spec) for spec in specs])
        if to_run:
            verify(body)
        nodes = [node for node in body.graph.nodes if node.op == "placeholder"]
        leaves = {node.name: _leaf(spec, node, content) for node, spec in zip(nodes, specs, strict=True)}
        parameters = {as_text(spec["parameter_name"]) for kind, spec in specs if kind == "parameter"}
        axes = {name: module["graph"]["tensor_values"][name]["sizes"] for name in _input_names(specs)}
        traced = TracedModel(body.graph, leaves, content.stored, parameters, _output_names(module))
        return replace(traced, open=find_open(axes, sizes))


def _input_name(spec: tuple[str, Any]) -> str:
    kind, value = spec
    if kind == "constant_input":
        return as_text(value["name"])
    argument = value["arg"]
    if kind == "user_input":
        argument = only(argument)[1]
    return argument.get("name", argument.get("as_name", "")) if isinstance(argument, Mapping) else ""


def _input_names(specs: list[tuple[str, Any]]) -> list[str]:
    """Of inputs that are tensors."""
    inputs = [only(value["arg"]) for kind, value in specs if kind == "user_input"]
    return [as_text(value["name"]) for kind, value in inputs if kind == "as_tensor"]


def _leaf(spec: tuple[str, Any], node: Any, content: Content) -> Any:
    kind, value = spec
    if kind not in ("constant_input", "user_input") and value["arg"].get("name") != node.name:
        raise ValueError("its signature and its graph disagree about the inputs")
    match kind:
        case "user_input":
            return Input(node.name) if isinstance(node.meta["val"], torch.Tensor) else node.meta["val"]
        case "constant_input":
            return PLAIN[only(value["value"])[0]](only(value["value"])[1])
        case "parameter" | "buffer" | "tensor_constant":
            return _stored_leaf(as_text(value[f"{kind}_name"]), node, content)
        case "custom_obj" | "token":
            return None
    raise ValueError(f"an input is a {kind}")


def _stored_leaf(name: str, node: Any, content: Content) -> StoredTensor | HeldTensor:
    tensor = content.stored[name] if name in content.stored else content.constants[name]
    if (tensor.shape, tensor.dtype) != (node.meta["val"].shape, node.meta["val"].dtype):
        raise ValueError(f"{name} is stored in another shape or type than the graph has")
    return StoredTensor(name) if name in content.stored else HeldTensor(name, tensor)


def _output_names(module: Mapping[str, Any]) -> tuple[str, ...]:
    """Results that only update buffers have none."""
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


def _bounds(written: Mapping[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    def bound(value: Any) -> int | None:
        return None if value is None else as_int(value)

    for symbol in written:
        if symbol_of(symbol) is None:
            raise RefusedError(f"{symbol[:100]!r} is not a symbol for a size")
    return {str(symbol_of(name)): (bound(each["min_val"]), bound(each["max_val"])) for name, each in written.items()}


def _choose_sizes(sizes: Sizes, graph: Any, specs: list[tuple[str, Any]], wanted: Mapping[str, Shape]) -> None:
    """Give every symbol the size that the user wants for it, or had when the program was exported."""
    names = _input_names(specs)
    shapes = {(names or [""])[0] if name == "" else name: shape for name, shape in wanted.items()}
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise UsageError(f"the program has no input {', '.join(unknown)}; its inputs are: {', '.join(names)}")
    for name in names:
        exported = graph["tensor_values"][name]["sizes"]
        given = shapes.get(name, (None,) * len(exported))
        if len(given) != len(exported):
            raise _fixed(name, exported, given)
        for size, chosen in zip(exported, given, strict=True):
            _choose(sizes, size, chosen)
    for name, shape in shapes.items():
        exported = graph["tensor_values"][name]["sizes"]
        if tuple(sizes.size(size) for size in exported) != tuple(shape):
            raise _fixed(name, exported, shape)
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
        least, most = sizes.bounds.get(symbol, (None, None))
        if (least is not None and value < least and least > SPECIALISED) or (most is not None and value > most):
            raise UsageError(
                f"the program was exported for sizes from {0 if least is None else least} to "
                f"{'any' if most is None else most}, not for {value}. Give another --input-shape"
            )


def _fixed(name: str, exported: Any, given: Any) -> UsageError:
    def text(size: Any) -> str:
        kind, value = only(size)
        return str(value) if kind == "as_int" else (symbol_of(value["expr_str"]) or "?")

    there = "x".join(text(size) for size in exported)
    return UsageError(f"an exported program has fixed shapes: {name} is {there}, not {'x'.join(map(str, given))}")
