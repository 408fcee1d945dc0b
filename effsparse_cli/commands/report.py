"""`effsparse report`: direct and effective sparsity of one model, or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effsparse_cli.arguments import choose
from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit, look_in, note, show
from effsparse_cli.commands.shared.pages import Open, check_page, open_page
from effsparse_cli.commands.shared.progress import timed_steps
from effsparse_cli.errors import EffsparseError, UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.formats.writing.masks import by_parameter, check_suffix, write_masks
from effsparse_cli.progress import step
from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.line import render_line
from effsparse_cli.report.analysis.page import COLUMNS, COSTS, ORDERS

if TYPE_CHECKING:
    from effsparse_cli.formats.options import LoadOptions

EXAMPLES = """\
Examples:
effsparse report model.pt --input-shape 1,3,32,32
effsparse report model.pt2 --layers 'encoder.*' --sort gap
effsparse report model.onnx --depth 2 --columns weights,active,effective,multiply-adds
effsparse report model.pt --format json -o report.json
effsparse report model.onnx --format html -o report.html --open
effsparse report checkpoint.pth --arch resnet50 --key ema.state_dict
"""

Models = Annotated[
    list[Path],
    typer.Argument(help="Model files; several are listed, one line each.", metavar="MODEL...", show_default=False),
]
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
Depth = Annotated[
    int | None,
    o.number(
        "--depth",
        help="Group layers by the first N components of their names.",
        panel=o.OUTPUT,
        metavar="N",
        example="1",
    ),
]
Columns = Annotated[
    list[str] | None,
    o.option(
        "--columns",
        help=f"Columns to show, in this order: {', '.join(COLUMNS)}.",
        panel=o.OUTPUT,
        metavar="NAME,...",
        complete=o.complete_list(COLUMNS),
    ),
]
Quiet = Annotated[bool, o.option("--quiet", "-q", help="Show one line per model.", panel=o.OUTPUT)]
Verbose = Annotated[
    bool, o.option("--verbose", "-v", help="Show how long each step took, on standard error.", panel=o.OUTPUT)
]
Curve = Annotated[
    bool,
    o.option("--curve", help="Add the curve of further pruning by magnitude to an HTML page.", panel=o.OUTPUT),
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
    models: Models,
    load_arguments: LoadArguments,
    format: Format = "table",
    output: o.Output = None,
    open: Open = False,
    curve: Curve = False,
    active_masks: ActiveMasks = None,
    direct_only: DirectOnly = False,
    layers: Layers = None,
    sort: Sort = "order",
    depth: Depth = None,
    columns: Columns = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    count_embeddings: o.CountEmbeddings = False,
    engine: o.Engine = "bits",
    device: o.EngineDevice = "cpu",
) -> None:
    """Report direct and effective sparsity, per layer and in total."""
    if active_masks is not None:
        check_suffix(active_masks, "--active-masks")
    check_outputs({"--active-masks": active_masks, "-o": output}, [*models, load_arguments.masks])
    if engine == "bits" and device != "cpu":
        raise UsageError(f"--device {device}: the bits engine runs on the CPU only. Add --engine saturated.")
    chosen = tuple(choose(name, COLUMNS, "--columns") for name in split_names(columns))
    shown: dict[str, Any] = {"layers": split_names(layers), "sort": sort, "depth": depth, "columns": chosen}
    given = {"--layers": layers, "--sort": sort != "order", "--depth": depth is not None, "--columns": columns}
    check_page(format, output, {"--open": open, "--curve": curve})
    if len(models) > 1:
        _refuse({**given, "--active-masks": active_masks, "--direct-only": direct_only}, "with several models")
    if quiet:
        _refuse({**given, "--format": format != "table", "--direct-only": direct_only}, "with --quiet")
    options = load_arguments.options()
    settings: dict[str, Any] = {"engine": engine, "device": device, "count_embeddings": count_embeddings}
    with timed_steps() if verbose else nullcontext():
        if direct_only:
            paths = {"--active-masks": active_masks, "--depth": depth is not None, "--columns": columns}
            _refuse(paths, "with --direct-only")
            _report_direct(models[0], options, layers=split_names(layers), sort=sort, format=format, output=output)
            return
        if len(models) > 1:
            _report_several(models, options, settings, "quiet" if quiet else format, output)
            return
        from effsparse_cli.api.measuring import measure
        from effsparse_cli.formats import open_model_file

        file = open_model_file(models[0], options)
        settings |= {"masks": active_masks is not None, "patterns": not quiet, "costs": bool({*chosen} & {*COSTS})}
        graph, done = measure(file, pictures=format == "html", **settings)
        if curve and done.disconnected:
            note("the page has no curve, because the network is disconnected already")
        elif curve:
            from effsparse_cli.api.surveying import curve as find_curve

            shown["curve"] = find_curve(file, count_embeddings=count_embeddings)
        with step("rendering"):
            text = render_line(done) if quiet else look_in(done, output).render(format, **shown)
        if active_masks is not None:
            write_masks(by_parameter(done.active_masks, graph), active_masks)
        emit(text, output)
    if open:
        open_page(output)


def _refuse(given: Mapping[str, object], where: str) -> None:
    """Raise an error about options that were given where they have no meaning."""
    named = [option for option, value in given.items() if value]
    if named:
        raise UsageError(f"{' and '.join(named)} cannot be used {where}.")


def _report_direct(
    model: Path, options: LoadOptions, *, layers: tuple[str, ...], sort: str, format: str, output: Path | None
) -> None:
    # Imported here, so that --help loads neither numpy nor torch.
    from effsparse_cli.formats import open_model_file
    from effsparse_cli.report.direct import DirectReport, build_page

    if format not in DirectReport.FORMATS:
        raise UsageError(f"--direct-only has no format {format!r}: use {', '.join(DirectReport.FORMATS)}.")
    with step(f"reading {model.name}"):
        page = build_page(str(model), open_model_file(model, options).weights(), layers, sort)
    show(page, format, output)


def _report_several(
    models: Sequence[Path], options: LoadOptions, settings: dict[str, Any], format: str, output: Path | None
) -> None:
    """Show one line per model. A model that cannot be read has a note, and the exit code is that of its error."""
    from effsparse_cli.api.measuring import measure
    from effsparse_cli.formats import open_model_file
    from effsparse_cli.report.overview import Overview

    if format not in ("quiet", *Overview.FORMATS):
        raise UsageError(
            f"several models have no format {format!r}: use {', '.join(Overview.FORMATS)}, or report each model alone."
        )
    reports, problems, code = [], [], 0
    with step(f"measuring {len(models)} models", len(models)) as advance:
        for model in models:
            try:
                reports.append(measure(open_model_file(model, options), **settings)[1])
            except EffsparseError as error:
                problems.append(f"{model}: {str(error).removeprefix(str(model)).lstrip(': ')}")
                code = max(code, error.exit_code)
            advance(1)
    if format == "quiet":
        emit("".join(map(render_line, reports)), output)
        for problem in problems:
            note(problem)
    else:
        show(Overview(tuple(reports), tuple(problems)), format, output)
    if code:
        raise typer.Exit(code)
