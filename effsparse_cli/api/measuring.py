"""`load`, `analyze` and `diff`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from effsparse_cli.api.models import LiveModel, LoadKeywords, Model, name_of, open_model
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.model_file import ModelFile
from effsparse_cli.progress import step

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.graph.primitives import ViewerNode
    from effsparse_cli.report.analysis.report import Report
    from effsparse_cli.report.comparison import Difference


def load(path: str | os.PathLike[str], **load: Unpack[LoadKeywords]) -> ModelFile:
    """Open a model file, to pass it to several functions. Nothing in it is run, and nothing is parsed twice.

    The keyword arguments are those of `LoadKeywords`.

    Examples:
        >>> file = effsparse.load("lenet5.pth", arch="lenet-5")
        >>> print(effsparse.analyze(file))
    """
    file = open_model(path, None, load)
    assert not isinstance(file, LiveModel)
    return file


def analyze(
    model: Model,
    example_input: Any = None,
    *,
    engine: str = "bits",
    device: str = "cpu",
    count_embeddings: bool = False,
    active_masks: bool = False,
    patterns: bool = True,
    costs: bool = False,
    pictures: bool = False,
    **load: Unpack[LoadKeywords],
) -> Report:
    """Measure the direct and effective sparsity of a live module or a model file, without changing it.

    `example_input` is a tensor, a tuple of arguments, or a dict of keyword arguments; only its shape and type matter.
    Masks (torch.nn.utils.prune, parametrizations, masks multiplied in forward) are traced back to the module's
    parameters. With `active_masks`, the result holds one boolean array per weight. With `patterns`, it names the N:M or
    block pattern of each layer that has one; with `costs`, each layer has its multiply-adds and bytes; with
    `pictures`, the result holds the network and a picture of each layer, as data. A module is traced again only if its
    structure has changed since the last call. In a training loop, use `Analyzer`.

    Examples:
        >>> report = effsparse.analyze(model, torch.zeros(1, 1, 28, 28))
        >>> print(report)
        >>> report.layers["fc1"].effective_sparsity
    """
    if engine == "bits" and device != "cpu":
        raise UsageError(f"--device {device}: the bits engine runs on the CPU only. Add --engine saturated.")
    return measure(
        open_model(model, example_input, load),
        engine=engine,
        device=device,
        count_embeddings=count_embeddings,
        masks=active_masks,
        patterns=patterns,
        costs=costs,
        pictures=pictures,
    )[1]


def measure(source: LiveModel | ModelFile, **settings: Any) -> tuple[Graph, Report]:
    """Return the graph of a model too; `settings` are those of `analyze_graph`."""
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.report.analysis.report import Report

    graph = read_graph(source)
    with step("measuring"):
        analysis = replace(analyze_graph(graph, **settings), viewer_nodes=_find_viewer_nodes(source, graph))
        return graph, Report.of(analysis, model=name_of(source))


def _find_viewer_nodes(source: LiveModel | ModelFile, graph: Graph) -> dict[ViewerNode, tuple[str, ...]] | None:
    """Return the layers that each node of Model Explorer uses. A node may stand for several op calls."""
    nodes = None if isinstance(source, LiveModel) else source.viewer_nodes(graph.calls)
    if nodes is None:
        return None
    layers: dict[ViewerNode, dict[str, None]] = {}
    for call, node in nodes.items():
        layers.setdefault(node, {}).update(dict.fromkeys(graph.calls[call]))
    return {node: tuple(names) for node, names in layers.items()}


def read_graph(source: LiveModel | ModelFile) -> Graph:
    """Return the graph of a model, at the sizes that its counts need where the model leaves sizes open."""
    from effsparse_cli.analysis.sizes import open_graph

    if isinstance(source, LiveModel):
        return source.graph()
    with step(f"reading {source.path.name}"):
        return open_graph(source)[0]


def diff(
    before: Model,
    after: Model,
    example_input: Any = None,
    *,
    count_embeddings: bool = False,
    pictures: bool = False,
    **load: Unpack[LoadKeywords],
) -> Difference:
    """Compare the connections of two models, layer by layer. Both are read with the same options. With `pictures`, the
    result holds a picture of each layer: the connections that are gained, revived, lost, newly dead or as they were.

    Examples:
        >>> difference = effsparse.diff("v1.onnx", "v2.onnx")
        >>> difference.differs
    """
    from effsparse_cli.comparison.compare import compare
    from effsparse_cli.report.comparison import Difference

    old, new = (open_model(model, example_input, load) for model in (before, after))
    graphs = [read_graph(source) for source in (old, new)]
    with step("measuring"):
        settings = {"count_embeddings": count_embeddings, "pictures": pictures}
        done = compare(name_of(old), graphs[0], name_of(new), graphs[1], **settings)
    return Difference.of(done)
