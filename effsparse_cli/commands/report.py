"""`effsparse report`: one model in, direct and effective sparsity per layer and in total out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import names
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

Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]
Sort = Annotated[str, o.choice("--sort", help="Order of the layers", panel=o.SHOW, metavar="KEY", choices=ORDERS)]
Layers = Annotated[
    list[str] | None,
    o.option(
        "--layers",
        help="Show only layers with such names (* and ?); totals stay the whole model's. Repeatable.",
        panel=o.SHOW,
        metavar="PATTERN",
    ),
]
DirectOnly = Annotated[
    bool,
    o.option(
        "--direct-only",
        help="The direct sparsity of each tensor, for a file without a graph; nothing is known of paths.",
        panel=o.SHOW,
    ),
]
ActiveMasks = Annotated[
    Path | None,
    o.option(
        "--active-masks",
        help="Write a boolean array per weight, by its key in a state_dict, to a .safetensors or .npz file.",
        panel=o.SHOW,
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
    device: o.Device = "cpu",
) -> None:
    """How sparse a pruned model is said to be, how sparse it effectively is, and why."""
    if active_masks is not None:
        check_suffix(active_masks, "--active-masks")
    check_outputs({"--active-masks": active_masks, "-o": output}, [model, load_arguments.masks])
    if engine == "bits" and device != "cpu":
        raise UsageError(f"--device {device} needs another engine: bits runs on the CPU. Add --engine saturated.")
    options = load_arguments.options()
    if direct_only:
        if active_masks is not None:
            raise UsageError("--active-masks needs paths, and --direct-only finds none: remove one of them.")
        # Rooms are imported where they are used: --help waits for neither numpy nor torch.
        from effsparse_cli.formats import open_model_file
        from effsparse_cli.report import direct
        from effsparse_cli.report.direct.page import build_page as build_direct_page

        if format not in direct.FORMATS:
            raise UsageError(f"--direct-only has no format {format!r}: use {', '.join(direct.FORMATS)}.")
        with progress(f"reading {model.name}"):
            weights = open_model_file(model, options).weights()
            page = build_direct_page(str(model), weights, names(layers), sort, look(output))
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
    text = FORMATS[format](build_page(str(model), analysis, names(layers), sort, look(output)))
    if active_masks is not None:
        write_masks(by_parameter(analysis.active_masks, graph), active_masks)
    emit(text, output)


def _measure(model: Path, options: LoadOptions, **how: Any) -> tuple[Graph, Analysis]:
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.analysis.opening import open_graph
    from effsparse_cli.formats import open_model_file

    with progress(f"reading {model.name}"):
        graph, _ = open_graph(open_model_file(model, options))
    with progress("following paths"):
        return graph, analyze_graph(graph, **how)
