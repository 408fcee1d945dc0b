"""A model file is read at the sizes that its counts need: where the model leaves sizes open, they double until the
counts stop changing. One place for all commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.analysis.sizes import Judge
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.graph import Graph


def open_model(file: Path, options: LoadOptions, judge: Judge | None = None) -> tuple[Graph, LoadOptions]:
    """The graph, and options under which the file is read at the same sizes again. `judge` finds in a graph what must
    not depend on its size; by default the counts of its layers."""
    from effsparse_cli.formats import load

    return settled(load(file, options), file, options, judge)


def settled(graph: Graph, file: Path, options: LoadOptions, judge: Judge | None = None) -> tuple[Graph, LoadOptions]:
    """The same for a graph that was read already."""
    from effsparse_cli.analysis.sizes import settle
    from effsparse_cli.formats import load

    found = settle(graph, lambda shapes: load(file, replace(options, input_shapes=shapes)), judge)
    if found is None:
        return graph, options
    return found.graph, replace(options, input_shapes=found.shapes)


def settled_options(file: Path, options: LoadOptions) -> tuple[LoadOptions, tuple[str, ...]]:
    """For commands that read the file by themselves: options with the sizes to use, and notes that say so."""
    from effsparse_cli.formats import leaves_open, load

    if not leaves_open(file, options):
        return options, ()
    graph = load(file, options)
    larger, options = settled(graph, file, options)
    return options, larger.notes[:1] if larger is not graph else ()
