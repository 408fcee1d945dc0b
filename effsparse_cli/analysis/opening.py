"""Read a model file at the sizes that its counts need: where the model leaves input sizes open, they double until the
counts stop changing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.analysis.sizes import Judge
    from effsparse_cli.formats import ModelFile
    from effsparse_cli.graph.graph import Graph


def open_graph(file: ModelFile, judge: Judge | None = None) -> tuple[Graph, ModelFile]:
    """Return the graph, and the file at the sizes that were settled on.

    `judge` returns what must not depend on the sizes; by default the counts of the layers.
    """
    return settle_sizes(file.graph(), file, judge)


def settle_sizes(graph: Graph, file: ModelFile, judge: Judge | None = None) -> tuple[Graph, ModelFile]:
    """Return the same for a graph that was read already."""
    from effsparse_cli.analysis.sizes import settle

    found = settle(graph, lambda shapes: file.with_options(input_shapes=shapes).graph(), judge)
    if found is None:
        return graph, file
    return found.graph, file.with_options(input_shapes=found.shapes)


def settle_file(file: ModelFile) -> tuple[ModelFile, tuple[str, ...]]:
    """Return the file at the sizes to use, and notes that say so, for commands that run the model themselves."""
    if not file.has_open_dimensions():
        return file, ()
    graph = file.graph()
    larger, file = settle_sizes(graph, file)
    return file, larger.notes[:1] if larger is not graph else ()
