"""Drops what the outputs of an ONNX model do not need."""

from __future__ import annotations

from onnx import ModelProto

from effsparse_cli.formats.onnx.proto import free_names


def drop_unused(model: ModelProto) -> None:
    """Remove nodes and stored tensors that no output needs, in place. The order of the nodes does not matter."""
    graph = model.graph
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    wanted, needed = {value.name for value in graph.output}, set[int]()
    waiting = list(wanted)
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is not None and maker not in needed:
            needed.add(maker)
            read = free_names([graph.node[maker]], set())
            waiting += read - wanted
            wanted |= read
    for i in reversed(range(len(graph.node))):
        if i not in needed:
            del graph.node[i]
    wanted |= {value.name for value in graph.input}
    for i in reversed(range(len(graph.initializer))):
        if graph.initializer[i].name not in wanted:
            del graph.initializer[i]
