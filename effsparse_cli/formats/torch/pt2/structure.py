"""Read the structure of a program's outputs, which gives their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from effsparse_cli.errors import RefusedError
from effsparse_cli.formats.torch.pt2.parse import as_text, parse


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
