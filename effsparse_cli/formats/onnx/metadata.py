"""Annotations of a model: entries of `metadata_props`, of nodes and of the model itself, which viewers show. Readers
ignore them, also readers of IR versions before 10, in which nodes had no such field."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, NodeProto

from effsparse_cli.formats.onnx.proto import op_calls
from effsparse_cli.graph.primitives import CallPath

PREFIX = "effsparse."


def replace_metadata(model: ModelProto, new: Mapping[CallPath, Mapping[str, str]]) -> None:
    """Replace all annotations of a model, in place. Entries of other tools stay."""
    messages: list[tuple[CallPath, ModelProto | NodeProto]] = [((), model), *op_calls(model)]
    for path, message in messages:
        others = [entry for entry in message.metadata_props if not entry.key.startswith(PREFIX)]
        if len(others) < len(message.metadata_props):
            del message.metadata_props[:]
            message.metadata_props.extend(others)
        for key, value in new.get(path, {}).items():
            # A file name may hold bytes that are not UTF-8, which protobuf would refuse.
            message.metadata_props.add(key=PREFIX + key, value=value.encode(errors="backslashreplace").decode())
