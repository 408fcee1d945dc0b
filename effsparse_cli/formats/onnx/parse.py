"""Parse an ONNX file into a checked ModelProto with sorted nodes, without its external data. Problems of the file as a
whole are reported here, in one sentence with what to try, and whatever a malformed file causes becomes a LoadError."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import onnx
import onnx.defs
from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.formats.onnx.external import is_external
from effsparse_cli.formats.onnx.outline import outline
from effsparse_cli.formats.onnx.proto import free_names, label, local_names, subgraphs
from effsparse_cli.formats.onnx.shapes.inference import explosive

MOST_BYTES = (1 << 31) - 1


def open_model(path: Path, mapped: bool = False) -> ModelProto:
    """Parse and check a model. With `mapped`, large tensors stay in the file, as `outline` describes."""
    model = read_model(path, mapped)
    with malformed_is_load_error(path, model):
        _check(model, path)
    return model


def read_model(path: Path, mapped: bool = False) -> ModelProto:
    """Parse a model as it is in the file."""
    model = outline(path) if mapped else None
    return _parsed(path) if model is None else model


def _check(model: ModelProto, path: Path) -> None:
    if not model.graph.node and not model.graph.initializer:
        raise LoadError(f"{path} contains no graph: it parses as an empty ONNX model. Export it again.")
    if any(isinstance(name, bytes) for name in _texts(model)):
        raise LoadError(f"{path} is damaged: a name in it is not valid UTF-8. Export or copy it again.")
    _check_opsets(model, path)
    sort_model(model, path)
    _check_graph(model.graph, path, [])
    for function in model.functions:
        _check_nodes(function.node, function.output, path, [set(function.input)])


def _parsed(path: Path) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(_bytes(path))
    except DecodeError:
        raise LoadError(
            f"{path} is not an ONNX model, or is damaged: it cannot be parsed. Export or copy it again."
        ) from None
    return model


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise LoadError(f"{path} is over 2 GB, the size limit of an ONNX file: larger models use external data.")
        data = path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror or error}.") from None
    start = data[:256].lstrip().lower()
    if not data:
        raise LoadError(f"{path} is empty.")
    if start.startswith(b"version https://git-lfs"):
        raise LoadError(f"{path} is a Git LFS pointer, not the model itself. Fetch it with `git lfs pull`.")
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise LoadError(f"{path} is a web page, not a model: the download failed.")
    return data


def _texts(message: Message) -> Iterator[str | bytes]:
    """Yield every string in the model without touching weights. Protobuf gives bytes for a string that is not UTF-8."""
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
    """Return the fields that are or hold strings: name, whether it is repeated, whether it is a string."""
    types = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE)
    return [(f.name, f.is_repeated, f.type == types[0]) for f in descriptor.fields if f.type in types]


def _check_opsets(model: ModelProto, path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise LoadError(
                f"{path} uses opset {opset.version}; the installed onnx package supports up to {newest}. "
                "Upgrade onnx, or export with an older opset."
            )


def _check_graph(graph: GraphProto, path: Path, outer: Sequence[set[str]]) -> None:
    """Check that names are unique and defined before use, in this graph and its subgraphs."""
    stored = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    twice = [name for name, n in Counter(stored).items() if n > 1]
    if twice:
        raise LoadError(f"{path}: the initializer {twice[0]!r} is defined twice, so its value is ambiguous.")
    _check_nodes(graph.node, [value.name for value in graph.output], path, [*outer, local_names(graph)])


def _check_nodes(nodes: Sequence[NodeProto], outputs: Sequence[str], path: Path, outer: Sequence[set[str]]) -> None:
    """`outer` holds sets of names defined before the first operator, the graph's own last."""
    seen = outer[-1]
    for node in nodes:
        for name in node.input:
            if name and not any(name in names for names in outer):
                raise LoadError(
                    f"{path}: {label(node)} uses {name!r}, which is not an input, weight or value of the graph. "
                    "The file is incomplete."
                )
        for inner in subgraphs(node):
            _check_graph(inner, path, outer)
        again = [name for name in node.output if name and name in seen]
        if again:
            raise LoadError(f"{path}: the value {again[0]!r} is defined twice, the second time by {label(node)}.")
        seen.update(name for name in node.output if name)
    for output in outputs:
        if not any(output in names for names in outer):
            raise LoadError(f"{path}: no operator computes the output {output!r}.")


def sort_model(model: ModelProto, path: Path) -> None:
    """Sort every graph and function in place, unless it is sorted already. A cycle is an error."""
    _sort(model.graph, [local_names(model.graph)], path)
    for function in model.functions:
        _sort(function, [set(function.input)], path)


def _sort(owner: GraphProto | FunctionProto, given: list[set[str]], path: Path) -> None:
    """`given` are the names that exist before the first node."""
    made = {name for node in owner.node for name in node.output if name}
    for node in owner.node:
        for inner in subgraphs(node):
            _sort(inner, [*given, made, local_names(inner)], path)
    uses = [free_names([node], set()) for node in owner.node]
    order = _sorted(owner.node, uses, given, path)
    if order is not None:
        nodes = list(owner.node)
        del owner.node[:]
        owner.node.extend(nodes[i] for i in order)


def _sorted(
    nodes: Sequence[NodeProto], uses: Sequence[set[str]], given: Sequence[set[str]], path: Path
) -> list[int] | None:
    """Return positions in topological order, as close to the stored order as possible; None if it is sorted already."""
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if not any(name in names for names in given):
                makers.setdefault(name, i)
    needed = [{makers[name] for name in names if name in makers} for names in uses]
    if all(max(before, default=-1) < i for i, before in enumerate(needed)):
        return None
    sorter = TopologicalSorter(dict(enumerate(needed)))
    with suppress(CycleError):  # nodes before the cycle are still sorted
        sorter.prepare()
    order, ready = list[int](), sorted(sorter.get_ready())
    while ready:
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
        for i in sorter.get_ready():
            heapq.heappush(ready, i)
    if len(order) < len(nodes):
        first = min({*range(len(nodes))} - {*order})
        raise LoadError(f"{path}: the operators form a cycle through or before {label(nodes[first])}.")
    return order


@contextmanager
def malformed_is_load_error(path: Path, model: ModelProto | None = None) -> Iterator[None]:
    """Wrap code that reads a file; `model` is its content, once parsed."""
    try:
        yield
    except EffsparseError:
        raise
    except MemoryError:
        raise LoadError(f"{path}: not enough memory to load it.") from None
    except RecursionError:
        raise LoadError(f"{path}: nested too deeply.") from None
    except Exception:
        fault = _fault(model) if model is not None else ""
        if not fault:
            raise
        raise LoadError(f"{path} is not a valid ONNX model: {fault}. Export it again.") from None


def _fault(model: ModelProto) -> str:
    """Return what onnx's checker says about a model; "" if it is valid."""
    light = ModelProto()
    light.CopyFrom(model)
    for tensor in light.graph.initializer:
        _empty(tensor)
    for sparse in light.graph.sparse_initializer:
        _empty(sparse.values)
    context = onnx.checker.C.CheckerContext()
    context.ir_version = light.ir_version
    context.opset_imports = {opset.domain: opset.version for opset in light.opset_import}
    try:
        for node in light.graph.node:  # one by one first: an error about a node says most
            onnx.checker.check_node(node, context)
        onnx.checker.check_model(light)
        if not explosive(light):
            onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except Exception as error:  # the checker's errors have no common class
        return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return ""


def _empty(tensor: TensorProto) -> None:
    """Replace a tensor with external data, which the checker would look for, by an empty one."""
    if is_external(tensor):
        tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))
