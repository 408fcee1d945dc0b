"""Attributes of nodes as Python values."""

from __future__ import annotations

from typing import Any

from onnx import NodeProto, helper


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of an attribute, with strings decoded; the default if the node lacks it."""
    for each in node.attribute:
        if each.name == name:
            value = helper.get_attribute_value(each)
            return [_decoded(item) for item in value] if isinstance(value, list) else _decoded(value)
    return default


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
