"""The graph of an exported program, from JSON to torch.fx: operators from a list, values as tensors without memory.
No code is generated from it, and names are identifiers, so that none could be smuggled in."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from keyword import iskeyword
from typing import Any

import torch
from torch import fx, nn

from effsparse_cli.formats.torch.pt2.operators import find_operator
from effsparse_cli.formats.torch.pt2.parse import as_bool, as_float, as_int, as_text, only
from effsparse_cli.formats.torch.pt2.sizes import Sizes
from effsparse_cli.formats.torch.pt2.tensors import DTYPES, LAYOUTS, MEMORY_FORMATS, blank

DEEPEST = 20
"""Bodies of higher-order operators inside each other."""
KEYWORD = 2
CPU = torch.device("cpu")


class Body(nn.Module):
    """A graph that a higher-order operator runs. It is interpreted, never compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.graph.owning_module = self  # type: ignore[assignment]

    def forward(self, *args: Any) -> Any:
        return fx.Interpreter(self, graph=self.graph).run(*args)


class GraphReader:
    """One graph of the program; bodies have readers of their own. `values` are its nodes by name."""

    def __init__(self, written: Mapping[str, Any], sizes: Sizes, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise ValueError("graphs are nested too deeply")
        self.written = written
        self.sizes = sizes
        self.depth = depth
        self.body = Body()
        self.graph = self.body.graph
        self.values: dict[str, fx.Node] = {}

    def read(self, input_names: list[str] | None = None) -> Body:
        """`input_names` are for inputs that are plain values and have no name in the graph."""
        for i, given in enumerate(self.written["inputs"]):
            kind, value = only(given)
            if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj", "as_token"):
                self._define(_name_in(value), self.graph.placeholder(checked_name(_name_in(value))))
            else:
                name = checked_name(input_names[i] if input_names else f"arg{i}")
                node = self.graph.placeholder(name)
                node.name = name
                node.meta["val"] = self.argument(given)
        for node in self.written["nodes"]:
            self._call(node)
        outputs = tuple(self.argument(given) for given in self.written["outputs"])
        single = self.written.get("is_single_tensor_return", False)
        self.graph.output(outputs[0] if single and len(outputs) == 1 else outputs)
        if len({node.name for node in self.graph.nodes}) < len(self.graph.nodes):
            raise ValueError("two values have one name")
        return self.body

    def _define(self, name: str, node: fx.Node) -> None:
        checked_name(name)
        if name in self.values:
            raise ValueError(f"{name} is defined twice")
        node.name = name
        node.meta["val"] = self.value(name)
        self.values[name] = node

    def value(self, name: str) -> Any:
        """A tensor without memory, or a number."""
        if name in self.written["tensor_values"]:
            return blank(self.written["tensor_values"][name], self.sizes)
        if name in self.written["sym_int_values"]:
            return self.sizes.size(self.written["sym_int_values"][name])
        if name in self.written.get("sym_float_values", {}):
            kind, value = only(self.written["sym_float_values"][name])
            hint = value if kind == "as_float" else only(value["hint"])[1] if value.get("hint") else None
            return None if hint is None else as_float(hint)
        return None

    def _call(self, written: Mapping[str, Any]) -> None:
        target = find_operator(as_text(written["target"]))
        if isinstance(target, torch._ops.OpOverload):
            args, kwargs = self._bound(target, written["inputs"])
        else:
            args, kwargs = self._given(written["inputs"])
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name="call")
        node.meta["nn_module_stack"] = _module_stack(as_text(written["metadata"].get("nn_module_stack", "")))
        self._results(written, node)

    def _bound(self, target: torch._ops.OpOverload, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments in the order of the operator's schema."""
        given = {as_text(entry["name"]): self.argument(entry["arg"]) for entry in inputs}
        schema = target._schema.arguments
        unknown = set(given) - {argument.name for argument in schema}
        missing = [a.name for a in schema if a.name not in given and not a.has_default_value()]
        if unknown or missing or len(given) < len(inputs):
            raise ValueError(f"the arguments of {target} do not fit it")
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for i, argument in enumerate(schema):
            if argument.name in given:
                if argument.kwarg_only or len(args) < i:
                    kwargs[argument.name] = given[argument.name]
                else:
                    args.append(given[argument.name])
        return args, kwargs

    def _given(self, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of what has no schema."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for entry in inputs:
            if entry["name"] == "" or entry.get("kind") != KEYWORD:
                args.append(self.argument(entry["arg"]))
            else:
                kwargs[checked_name(entry["name"])] = self.argument(entry["arg"])
        return args, kwargs

    def _results(self, written: Mapping[str, Any], node: fx.Node) -> None:
        """An operator with several results is followed by a node that picks each of them."""
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
        node.meta["val"] = self._picked(node, parts)

    def _picked(self, node: fx.Node, parts: list[Any]) -> tuple[Any, ...]:
        values: list[Any] = []
        for i, part in enumerate(parts):
            kind, value = only(part)
            if kind == "as_none":
                values.append(None)
                continue
            picked = self.graph.create_node("call_function", operator.getitem, (node, i), name="item")
            picked.meta["nn_module_stack"] = node.meta["nn_module_stack"]
            if kind == "as_tensors":
                picked.meta["val"] = list(self._picked(picked, [{"as_tensor": each} for each in value]))
                values.append(picked.meta["val"])
            else:
                self._define(_name_in(value), picked)
                values.append(picked.meta["val"])
        return tuple(values)

    def argument(self, written: Any) -> Any:
        kind, value = only(written)
        if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._named(value)
        if kind == "as_graph":
            return self._body(value)
        if kind == "as_string_to_argument":
            return {as_text(key): self.argument(each) for key, each in value.items()}
        if kind in LISTS:
            return [self._named(each) for each in value]
        if kind == "as_nested_tensors":
            return [[self._named(each) for each in inner] for inner in value]
        if kind in ("as_custom_obj", "as_operator"):
            return None  # of operators that are not run
        return PLAIN[kind](value)

    def _named(self, written: Any) -> Any:
        """A value by its name, or a number in its place."""
        if "name" in written:
            return self.values[written["name"]]
        kind, value = only(written)
        match kind:
            case "as_name":
                return self.values[value]
            case "as_tensor" | "as_optional_tensor":
                return self._named(value)
        return PLAIN[kind](value)

    def _body(self, written: Any) -> fx.Node:
        name = checked_name(written["name"])
        body = GraphReader(written["graph"], self.sizes, self.depth + 1).read()
        if name in self.body._modules:
            raise ValueError(f"{name} is defined twice")
        self.body.add_module(name, body)
        return self.graph.create_node("get_attr", name)


LISTS = ("as_tensors", "as_optional_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools")


def _optional_tensor(value: Any) -> None:
    if "as_none" not in value:
        raise ValueError("an optional tensor that is neither there nor absent")


def _list_of(convert: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda values: [convert(value) for value in values]


PLAIN: dict[str, Callable[[Any], Any]] = {
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
"""Arguments that are values themselves. Everything is computed on the CPU, wherever it was exported."""


def checked_name(name: Any) -> str:
    """An identifier: torch.fx can turn names into source code."""
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier()) or iskeyword(name) or len(name) > 500:
        raise ValueError(f"{str(name)[:60]!r} is not a name for a value")
    return name


def _name_in(value: Any) -> str:
    return as_text(value["name"] if "name" in value else value["as_name"])


@lru_cache(maxsize=4096)
def _module_stack(text: str) -> dict[str, tuple[str, str]]:
    """The innermost module around an operator: its path in the user's model."""
    parts, depth = [""], 0
    for character in text.rpartition(";")[2]:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return {parts[0]: (parts[1], "")} if len(parts) > 1 else {}
