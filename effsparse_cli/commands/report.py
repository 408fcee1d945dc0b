"""`effsparse report`: direct and effective sparsity of one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.formats.writing.masks import by_parameter, check_suffix, write_masks
from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.page import ORDERS, build_page

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.graph import Graph

EXAMPLES = """\
Examples:

effsparse report model.pt --input-shape 1,3,32,32

effsparse report model.pt2 --layers 'encoder.*' --sort gap

effsparse report model.pt --format json -o report.json

effsparse report checkpoint.pth --arch resnet50 --key ema.state_dict
"""

Format = Annotated[str, o.format_choice(FORMATS)]
Sort = Annotated[str, o.choice("--sort", help="Order of layers", panel=o.OUTPUT, metavar="KEY", choices=ORDERS)]
Layers = Annotated[
    list[str] | None,
    o.option(
        "--layers",
        help="Show only layers that match (* and ?); totals include all layers (repeatable).",
        panel=o.OUTPUT,
        metavar="PATTERN",
    ),
]
DirectOnly = Annotated[
    bool,
    o.option(
        "--direct-only",
        help="Report the direct sparsity of each tensor, without a graph.",
        panel=o.OUTPUT,
    ),
]
ActiveMasks = Annotated[
    Path | None,
    o.option(
        "--active-masks",
        help="Write a boolean array per weight, by state_dict key, to a .safetensors or .npz file.",
        panel=o.OUTPUT,
        metavar="FILE",
    ),
]


@with_load_arguments
def report(
    model: o.Model,
    load_arguments: LoadArguments,
    format: Format = "table",
    output: o.Output = None,
    active_masks: ActiveMasks = None,
    direct_only: DirectOnly = False,
    layers: Layers = None,
    sort: Sort = "order",
    count_embeddings: o.CountEmbeddings = False,
    engine: o.Engine = "bits",
    device: o.EngineDevice = "cpu",
) -> None:
    """Report direct and effective sparsity, per layer and in total."""
    if active_masks is not None:
        check_suffix(active_masks, "--active-masks")
    check_outputs({"--active-masks": active_masks, "-o": output}, [model, load_arguments.masks])
    if engine == "bits" and device != "cpu":
        raise UsageError(f"--device {device}: the bits engine runs on the CPU only. Add --engine saturated.")
    options = load_arguments.options()
    if direct_only:
        if active_masks is not None:
            raise UsageError("--active-masks and --direct-only cannot be combined: active connections need paths.")
        # Imported here, so that --help loads neither numpy nor torch.
        from effsparse_cli.formats import open_model_file
        from effsparse_cli.report import direct
        from effsparse_cli.report.direct import build_page as build_direct_page

        if format not in direct.FORMATS:
            raise UsageError(f"--direct-only has no format {format!r}: use {', '.join(direct.FORMATS)}.")
        with progress(f"reading {model.name}"):
            weights = open_model_file(model, options).weights()
            page = build_direct_page(str(model), weights, split_names(layers), sort, look(output))
        emit(direct.FORMATS[format](page), output)
        return
    graph, analysis = _measure(
        model,
        options,
        engine=engine,
        device=device,
        count_embeddings=count_embeddings,
        masks=active_masks is not None,
        patterns=True,
    )
    text = FORMATS[format](build_page(str(model), analysis, split_names(layers), sort, look(output)))
    if active_masks is not None:
        write_masks(by_parameter(analysis.active_masks, graph), active_masks)
    emit(text, output)


def _measure(model: Path, options: LoadOptions, **settings: Any) -> tuple[Graph, Analysis]:
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.analysis.sizes import open_graph
    from effsparse_cli.formats import open_model_file

    with progress(f"reading {model.name}"):
        graph, _ = open_graph(open_model_file(model, options))
    with progress("measuring"):
        return graph, analyze_graph(graph, **settings)
