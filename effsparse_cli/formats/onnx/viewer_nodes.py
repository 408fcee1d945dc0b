"""Name op calls like Model Explorer's ONNX adapter (the package model-explorer-onnx): a model in, graph and node by op
call out. The adapter makes names unique, moves the branches of If into the graph around it, and shows the bodies of
other operators, and functions, as separate graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from onnx import AttributeProto, ModelProto, NodeProto

from effsparse_cli.formats.onnx.operators import canonical
from effsparse_cli.formats.onnx.proto import call_name, function_path
from effsparse_cli.graph.primitives import CallPath, ViewerNode

UNNAMED_GRAPH, UNNAMED_NODE = "<main>", "node"


def name_nodes(model: ModelProto) -> dict[CallPath, ViewerNode]:
    """Return the names of every op call that is shown. What is nested more deeply than the adapter looks is not."""
    main = model.graph.name if model.graph.HasField("name") else UNNAMED_GRAPH
    found = dict(_Names(main).visit(model.graph.node, (), main))
    for function in model.functions:
        overload = f"::{function.overload}" if function.overload else ""
        graph = f"[function]{function.domain}::{function.name}{overload}"
        found.update(_Names(None).visit(function.node, function_path(function), graph))
    return found


class _Names:
    """The names in one graph or function and in what is nested in it. `main` is the graph whose operators show their
    bodies: None in a function, which shows none."""

    def __init__(self, main: str | None) -> None:
        self.main = main
        self.repeated: Counter[str] = Counter()

    def visit(
        self, nodes: Iterable[NodeProto], path: CallPath, graph: str | None, prefix: str = ""
    ) -> Iterator[tuple[CallPath, ViewerNode]]:
        """Yield op calls with their names. `graph` is None where nothing is shown, but names are used up."""
        used: set[str] = set()
        for node in nodes:
            own, shown = (*path, call_name(node)), prefix + self._unique(node.name or UNNAMED_NODE, used)
            if graph is not None:
                yield own, (graph, shown)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    inside, inner_prefix = self._inside(node, f"{shown}/{attribute.name}", graph)
                    yield from self.visit(attribute.g.node, (*own, attribute.name), inside, inner_prefix)
                for i, inner in enumerate(attribute.graphs):
                    yield from self.visit(inner.node, (*own, attribute.name, str(i)), None)

    def _inside(self, node: NodeProto, name: str, graph: str | None) -> tuple[str | None, str]:
        """Return the graph that shows a body, and what its nodes' names start with."""
        if self.main is not None and node.op_type == "If" and not canonical(node.domain):
            return graph, f"{name}/"
        return (name if graph is not None and graph == self.main else None), ""

    def _unique(self, wanted: str, used: set[str]) -> str:
        name = wanted
        while name in used:
            self.repeated[wanted] += 1
            name = f"{wanted}_{self.repeated[wanted]}"
        used.add(name)
        return name
