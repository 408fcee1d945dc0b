"""`effsparse report`: one model in, direct and effective sparsity per layer and in total out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from effsparse_cli.commands import options as o
from effsparse_cli.commands.arguments import names
from effsparse_cli.commands.output import emit, look
from effsparse_cli.commands.progress import progress
from effsparse_cli.commands.reading import Reading, reads
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.formats.writing.masks import by_parameter, check_suffix, write_masks
from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.page import ORDERS, build_page

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.report.look import Look

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


@reads
def report(
    model: o.Model,
    reading: Reading,
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
    _check(model, reading.masks, output, active_masks, engine, device)
    if direct_only:
        emit(_direct_only(model, reading.options(), format, names(layers), sort, active_masks, look(output)), output)
        return
    # Rooms are imported where they are used: --help waits for neither numpy nor torch.
    graph, analysis = _measure(
        model, reading.options(), engine, device, count_embeddings, masks=active_masks is not None
    )
    text = FORMATS[format](build_page(str(model), analysis, names(layers), sort, look(output)))
    if active_masks is not None:
        write_masks(by_parameter(analysis.active_masks, graph), active_masks)
    emit(text, output)


def _check(
    model: Path, masks: Path | None, output: Path | None, active_masks: Path | None, engine: str, device: str
) -> None:
    """Refuse what can be refused before the model is read."""
    if active_masks is not None:
        check_suffix(active_masks, "--active-masks")
    check_outputs({"--active-masks": active_masks, "-o": output}, [model, masks])
    if engine == "bits" and device != "cpu":
        raise UsageError(f"--device {device} needs another engine: bits runs on the CPU. Add --engine saturated.")


def _direct_only(
    model: Path,
    reading: LoadOptions,
    format: str,
    patterns: tuple[str, ...],
    sort: str,
    active_masks: Path | None,
    look: Look,
) -> str:
    from effsparse_cli.report import direct
    from effsparse_cli.report.direct.page import build_page

    if active_masks is not None:
        raise UsageError("--active-masks needs paths, and --direct-only finds none: remove one of them.")
    if format not in direct.FORMATS:
        raise UsageError(f"--direct-only has no format {format!r}: use {', '.join(direct.FORMATS)}.")
    with progress(f"reading {model.name}"):
        from effsparse_cli.formats import open_model_file

        page = build_page(str(model), open_model_file(model, reading).weights(), patterns, sort, look)
    return direct.FORMATS[format](page)


def _measure(
    model: Path, reading: LoadOptions, engine: str, device: str, count_embeddings: bool, masks: bool
) -> tuple[Graph, Analysis]:
    with progress(f"reading {model.name}"):
        from effsparse_cli.analysis.opening import open_graph
        from effsparse_cli.formats import open_model_file

        graph, _ = open_graph(open_model_file(model, reading))
    with progress("following paths"):
        from effsparse_cli.analysis.measure import analyze_graph

        return graph, analyze_graph(
            graph, engine=engine, device=device, count_embeddings=count_embeddings, masks=masks, patterns=True
        )
