"""The file itself: a path in, a parsed and checked ModelProto out, without its external data. Everything that is
wrong with the file as a whole is said here, in one sentence and what to try."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import onnx.defs
from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from effsparse_cli.errors import LoadError
from effsparse_cli.load.onnx.outline import outline

MOST_BYTES = (1 << 31) - 1


def open_model(path: Path, mapped: bool = False) -> ModelProto:
    """With `mapped`, large tensors stay where they are in the file."""
    model = outline(path) if mapped else None
    if model is None:
        model = _parsed(path)
    if not model.graph.node and not model.graph.initializer:
        raise LoadError(f"{path} holds no graph: it parses as an empty ONNX model. Export it again.")
    if any(isinstance(name, bytes) for name in _texts(model)):
        raise LoadError(f"{path} is damaged: a name in it is no text. Export or copy it again.")
    _check_opsets(model, path)
    _check_graph(model.graph, path, set())
    return model


def _parsed(path: Path) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(_bytes(path))
    except DecodeError:
        raise LoadError(
            f"{path} is no ONNX model, or is damaged: it cannot be parsed. Export or copy it again."
        ) from None
    return model


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise LoadError(f"{path} is over 2 GB, which no ONNX file can be: large models keep external data.")
        data = path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror or error}.") from None
    start = data[:256].lstrip().lower()
    if not data:
        raise LoadError(f"{path} is empty.")
    if start.startswith(b"version https://git-lfs"):
        raise LoadError(f"{path} is a Git LFS pointer, not the model itself. Fetch it with `git lfs pull`.")
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise LoadError(f"{path} is a web page, not a model: the download went wrong.")
    return data


def _texts(message: Message) -> Iterator[str | bytes]:
    """Every text in the model, and nothing else of it: weights are not touched. Protobuf gives bytes for a text that
    is not UTF-8."""
    for name, repeated, text in _fields(message.DESCRIPTOR):
        if not repeated and not message.HasField(name):
            continue
        value = getattr(message, name)
        for each in value if repeated else (value,):
            if text:
                yield each
            else:
                yield from _texts(each)


@cache
def _fields(descriptor: Descriptor) -> list[tuple[str, bool, bool]]:
    """Of a kind of message, those that are or hold texts: name, is it a list, is it a text."""
    kinds = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE)
    return [(f.name, f.is_repeated, f.type == kinds[0]) for f in descriptor.fields if f.type in kinds]


def _check_opsets(model: ModelProto, path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise LoadError(
                f"{path} uses opset {opset.version}; the installed onnx package knows up to {newest}. "
                "Upgrade onnx, or export with an older opset."
            )


def _check_graph(graph: GraphProto, path: Path, outer: set[str]) -> None:
    """Names: unique, and made before they are used, in this graph and the ones inside it."""
    stored = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    twice = [name for name, n in Counter(stored).items() if n > 1]
    if twice:
        raise LoadError(f"{path}: the initializer {twice[0]!r} is there twice, so its value is not certain.")
    seen = outer | set(stored) | {value.name for value in graph.input}
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        for name in node.input:
            if name and name not in seen:
                raise LoadError(f"{path}: {_missing(name, node, name in later)}")
        for inner in subgraphs(node):
            _check_graph(inner, path, seen)
        again = [name for name in node.output if name and name in seen and name not in outer]
        if again:
            raise LoadError(f"{path}: the value {again[0]!r} is made twice, the second time by {label(node)}.")
        seen.update(name for name in node.output if name)
    for value in graph.output:
        if value.name not in seen:
            raise LoadError(f"{path}: the output {value.name!r} is made by no operator.")


def _missing(name: str, node: NodeProto, later: bool) -> str:
    if later:
        return (
            f"{label(node)} uses {name!r} before it is made: its operators form a cycle or are not in order. "
            "Sort or export the model again."
        )
    return f"{label(node)} uses {name!r}, which is no input, weight or value of the graph. The file is incomplete."


def label(node: NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else f"the {node.op_type} that makes {list(node.output)[:1]}"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def free_names(nodes: Iterable[NodeProto], made: set[str]) -> set[str]:
    """Names that nodes and the graphs inside them use and that come from outside."""
    made, free = set(made), set[str]()
    for node in nodes:
        free.update(name for name in node.input if name and name not in made)
        for inner in subgraphs(node):
            local = {t.name for t in inner.initializer} | {t.values.name for t in inner.sparse_initializer}
            local |= {v.name for v in inner.input}
            free |= free_names(inner.node, made | local)
            produced = {name for n in inner.node for name in n.output}
            free |= {v.name for v in inner.output} - made - local - produced
        made.update(node.output)
    return free
