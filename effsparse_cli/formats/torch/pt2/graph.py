"""Convert the graph of an exported program from JSON to torch.fx: operators from a list, values as meta tensors. No
code is generated, and names must be identifiers, so that none can be injected."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from keyword import iskeyword
from typing import Any

import torch
from torch import fx, nn

from effsparse_cli.formats.torch.pt2.archive import DTYPES, LAYOUTS, MEMORY_FORMATS, make_meta
from effsparse_cli.formats.torch.pt2.operators import find_operator
from effsparse_cli.formats.torch.pt2.parse import as_bool, as_float, as_int, as_text, only
from effsparse_cli.formats.torch.pt2.sizes import Sizes

MAX_DEPTH = 20
"""Nesting depth of the subgraphs of higher-order operators."""
KEYWORD = 2
CPU = torch.device("cpu")


class InterpretedGraph(nn.Module):
    """A graph as a module, with its subgraphs as submodules. It is interpreted, never compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.graph.owning_module = self  # type: ignore[assignment]

    def forward(self, *args: Any) -> Any:
        return fx.Interpreter(self, graph=self.graph).run(*args)


class GraphReader:
    """Reads one graph of the program; subgraphs have their own readers. `values` are the nodes by name."""

    def __init__(self, written: Mapping[str, Any], sizes: Sizes, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise ValueError("graphs are nested too deeply")
        self.written = written
        self.sizes = sizes
        self.depth = depth
        self.module = InterpretedGraph()
        self.graph = self.module.graph
        self.values: dict[str, fx.Node] = {}

    def read(self, input_names: list[str] | None = None) -> InterpretedGraph:
        """Return the graph; `input_names` are for inputs that are constants and have no name in the graph."""
        for i, written in enumerate(self.written["inputs"]):
            kind, value = only(written)
            if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj", "as_token"):
                self._define(_name_in(value), self.graph.placeholder(check_name(_name_in(value))))
            else:
                name = check_name(input_names[i] if input_names else f"arg{i}")
                node = self.graph.placeholder(name)
                node.name = name
                node.meta["val"] = self.argument(written)
        for node in self.written["nodes"]:
            self._read_call(node)
        outputs = tuple(self.argument(written) for written in self.written["outputs"])
        single = self.written.get("is_single_tensor_return", False)
        self.graph.output(outputs[0] if single and len(outputs) == 1 else outputs)
        if len({node.name for node in self.graph.nodes}) < len(self.graph.nodes):
            raise ValueError("two values have the same name")
        return self.module

    def _define(self, name: str, node: fx.Node) -> None:
        check_name(name)
        if name in self.values:
            raise ValueError(f"{name} is defined twice")
        node.name = name
        node.meta["val"] = self.make_value(name)
        self.values[name] = node

    def make_value(self, name: str) -> Any:
        """Return a meta tensor or a number."""
        if name in self.written["tensor_values"]:
            return make_meta(self.written["tensor_values"][name], self.sizes)
        if name in self.written["sym_int_values"]:
            return self.sizes.size(self.written["sym_int_values"][name])
        if name in self.written.get("sym_float_values", {}):
            kind, value = only(self.written["sym_float_values"][name])
            hint = value if kind == "as_float" else only(value["hint"])[1] if value.get("hint") else None
            return None if hint is None else as_float(hint)
        return None

    def _read_call(self, written: Mapping[str, Any]) -> None:
        target = find_operator(as_text(written["target"]))
        if isinstance(target, torch._ops.OpOverload):
            args, kwargs = self._bind(target, written["inputs"])
        else:
            args, kwargs = self._read_arguments(written["inputs"])
        name = check_name(written["name"]) if written.get("name") else "call"
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name=name)
        node.meta["nn_module_stack"] = _module_stack(as_text(written["metadata"].get("nn_module_stack", "")))
        self._define_results(written, node)

    def _bind(self, target: torch._ops.OpOverload, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in the order of the schema."""
        arguments = {as_text(entry["name"]): self.argument(entry["arg"]) for entry in inputs}
        schema = target._schema.arguments
        unknown = set(arguments) - {argument.name for argument in schema}
        missing = [a.name for a in schema if a.name not in arguments and not a.has_default_value()]
        if unknown or missing or len(arguments) < len(inputs):
            raise ValueError(f"the arguments of {target} do not match its schema")
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for i, argument in enumerate(schema):
            if argument.name in arguments:
                if argument.kwarg_only or len(args) < i:
                    kwargs[argument.name] = arguments[argument.name]
                else:
                    args.append(arguments[argument.name])
        return args, kwargs

    def _read_arguments(self, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of an operator without a schema."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for entry in inputs:
            if entry["name"] == "" or entry.get("kind") != KEYWORD:
                args.append(self.argument(entry["arg"]))
            else:
                kwargs[check_name(entry["name"])] = self.argument(entry["arg"])
        return args, kwargs

    def _define_results(self, written: Mapping[str, Any], node: fx.Node) -> None:
        """Define the results of an operator; several results get one getitem node each."""
        outputs = written["outputs"]
        kinds = [only(output)[0] for output in outputs]
        listed = written.get("is_hop_single_tensor_return") is False and "higher_order" in written["target"]
        if len(outputs) == 1 and not listed and kinds[0] in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
            self._define(_name_in(only(outputs[0])[1]), node)
            return
        if not outputs or kinds == ["as_none"]:
            node.meta["val"] = None
            return
        parts = outputs
        if len(outputs) == 1 and kinds[0] == "as_tensors":
            parts = [{"as_tensor": each} for each in only(outputs[0])[1]]
        node.meta["val"] = self._define_items(node, parts)

    def _define_items(self, node: fx.Node, parts: list[Any]) -> tuple[Any, ...]:
        values: list[Any] = []
        for i, part in enumerate(parts):
            kind, value = only(part)
            if kind == "as_none":
                values.append(None)
                continue
            item = self.graph.create_node("call_function", operator.getitem, (node, i), name="item")
            item.meta["nn_module_stack"] = node.meta["nn_module_stack"]
            if kind == "as_tensors":
                item.meta["val"] = list(self._define_items(item, [{"as_tensor": each} for each in value]))
                values.append(item.meta["val"])
            else:
                self._define(_name_in(value), item)
                values.append(item.meta["val"])
        return tuple(values)

    def argument(self, written: Any) -> Any:
        kind, value = only(written)
        if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._find_value(value)
        if kind == "as_graph":
            return self._read_subgraph(value)
        if kind == "as_string_to_argument":
            return {as_text(key): self.argument(each) for key, each in value.items()}
        if kind in LISTS:
            return [self._find_value(each) for each in value]
        if kind == "as_nested_tensors":
            return [[self._find_value(each) for each in inner] for inner in value]
        if kind in ("as_custom_obj", "as_operator"):
            return None  # only for operators that are not run
        return CONSTANTS[kind](value)

    def _find_value(self, written: Any) -> Any:
        """Return the node of a name, or a constant."""
        if "name" in written:
            return self.values[written["name"]]
        kind, value = only(written)
        match kind:
            case "as_name":
                return self.values[value]
            case "as_tensor" | "as_optional_tensor":
                return self._find_value(value)
        return CONSTANTS[kind](value)

    def _read_subgraph(self, written: Any) -> fx.Node:
        name = check_name(written["name"])
        subgraph = GraphReader(written["graph"], self.sizes, self.depth + 1).read()
        if name in self.module._modules:
            raise ValueError(f"{name} is defined twice")
        self.module.add_module(name, subgraph)
        return self.graph.create_node("get_attr", name)


LISTS = ("as_tensors", "as_optional_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools")


def _optional_tensor(value: Any) -> None:
    if "as_none" not in value:
        raise ValueError("an optional tensor is invalid")


def _list_of(convert: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda values: [convert(value) for value in values]


CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_int": as_int,
    "as_ints": _list_of(as_int),
    "as_float": as_float,
    "as_floats": _list_of(as_float),
    "as_bool": as_bool,
    "as_bools": _list_of(as_bool),
    "as_string": as_text,
    "as_strings": _list_of(as_text),
    "as_scalar_type": lambda value: DTYPES[as_int(value)],
    "as_memory_format": lambda value: MEMORY_FORMATS[as_int(value)],
    "as_layout": lambda value: LAYOUTS[as_int(value)],
    "as_device": lambda _: CPU,
    "as_complex": lambda value: complex(as_float(value["real"]), as_float(value["imag"])),
    "as_int_lists": _list_of(_list_of(as_int)),
    "as_float_lists": _list_of(_list_of(as_float)),
    "as_optional_tensor": _optional_tensor,
}
"""Readers of constant arguments. Everything is computed on the CPU, wherever it was exported."""


def check_name(name: Any) -> str:
    """Check that a name is an identifier, because torch.fx can turn names into source code."""
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier()) or iskeyword(name) or len(name) > 500:
        raise ValueError(f"{str(name)[:60]!r} is not a valid name")
    return name


def _name_in(value: Any) -> str:
    return as_text(value["name"] if "name" in value else value["as_name"])


@lru_cache(maxsize=4096)
def _module_stack(text: str) -> dict[str, tuple[str, str]]:
    """Return the innermost module of an operator: its path in the user's model."""
    parts, depth = [""], 0
    for character in text.rpartition(";")[2]:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return {parts[0]: (parts[1], "")} if len(parts) > 1 else {}
