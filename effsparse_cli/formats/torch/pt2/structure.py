"""The structure that a program returns its outputs in, as torch writes it, for the names of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from effsparse_cli.errors import RefusedError
from effsparse_cli.formats.torch.pt2.parse import as_text, parse


@dataclass(frozen=True)
class Structure:
    """What `outputs.names` asks of a pytree's structure; `context` are the keys of the children, if they have some."""

    context: list[str] | None
    inside: tuple[Structure, ...]
    leaf: bool

    def is_leaf(self) -> bool:
        return self.leaf

    def children(self) -> list[Structure]:
        return list(self.inside)


def read_structure(text: str, fields: Mapping[str, Any]) -> Structure:
    """`fields` are the names in named tuples, by type."""
    version, written = parse(as_text(text))
    if version != 1:
        raise ValueError(f"structures of version {version} are not known")
    return _structure(written, fields)


def _structure(written: Mapping[str, Any], fields: Mapping[str, Any]) -> Structure:
    if written["type"] is None:
        return Structure(None, (), True)
    children = tuple(_structure(child, fields) for child in written["children_spec"])
    return Structure(_keys(written, len(children), fields), children, False)


def _keys(written: Mapping[str, Any], count: int, fields: Mapping[str, Any]) -> list[str] | None:
    """What the children are called, where all of them have a name."""
    named = fields.get(written["type"])
    keys = _parsed_context(written["context"]) if named is None else named["field_names"]
    if isinstance(keys, list) and len(keys) != count and len(keys) == 2 and isinstance(keys[0], list):
        keys = keys[0]
    if not isinstance(keys, list) or len(keys) != count or not all(isinstance(key, str | int) for key in keys):
        return None
    return [str(key) for key in keys]


def _parsed_context(text: Any) -> Any:
    """Keys are text or numbers; torch would import the class that one of another kind names."""
    context = parse(as_text(text))
    plain = True
    if isinstance(context, dict) and "dict_context" in context:
        plain = context.get("default_factory_module") in (None, "builtins")
        context = context["dict_context"]
    keys = context if isinstance(context, list) else [context]
    if not plain or any(isinstance(key, dict) and "__enum__" in key for key in keys):
        raise RefusedError("the structure of the program's outputs names a class to import. Nothing of it was run.")
    return context
