"""`effsparse quotas`: what layerwise quotas would leave each layer of a model, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import names
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.formats.writing.atomic import check_outputs, replacing
from effsparse_cli.report.figure import check_plot
from effsparse_cli.report.quotas import FORMATS
from effsparse_cli.report.quotas.page import QuotaPage
from effsparse_cli.report.quotas.plot import plot_quotas

EXAMPLES = """\
Examples:

effsparse quotas model.pt --lsq igq,erk,uniform --target 0.99

effsparse quotas model.pt --lsq igq,from:synflow --compression 100 --plot quotas.svg
"""

Lsqs = Annotated[
    list[str] | None,
    o.option(
        "--lsq",
        help=f"Which, of {', '.join(r.QUOTAS)}, from:METHOD; igq,erk,uniform by default.",
        panel=r.RANK,
        metavar="QUOTA,...",
    ),
]
Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]
Plot = Annotated[Path | None, o.option("--plot", help="Draw it, as .svg, .png or .pdf.", panel=o.SHOW, metavar="FILE")]


@with_load_arguments
def quotas(
    load_arguments: LoadArguments,
    model: r.Model = None,
    lsq: Lsqs = None,
    target: r.Target = None,
    compression: r.Compression = None,
    method: r.Method = "magnitude",
    only: r.Only = None,
    exclude: r.Exclude = None,
    rounds: r.Rounds = 0,
    erk_strict: r.ErkStrict = False,
    data: r.Data = None,
    loss: r.Loss = "cross-entropy",
    format: Format = "table",
    output: o.Output = None,
    plot: Plot = None,
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """How layerwise quotas share out a direct sparsity among the layers."""
    from effsparse_cli.commands.shared.project import find_model

    path, options = find_model(model, load_arguments)
    if plot is not None:
        check_plot(plot)
    check_outputs({"-o": output, "--plot": plot}, [path, options.masks])
    lsqs = names(lsq) or ("igq", "erk", "uniform")

    from effsparse_cli.pruning.plan import PrunePlan, parse_target

    plan = PrunePlan(
        target=parse_target(target, compression),
        method=method,
        only=names(only),
        exclude=names(exclude),
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
    )
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.opening import settle_sizes
        from effsparse_cli.formats import open_model_file

        file = open_model_file(path, options)
        graph, gradients = r.read_graph(file, (method, *lsqs), data=data, loss=loss)
        graph, _ = settle_sizes(graph, file)
    with progress("sharing out"):
        from effsparse_cli.pruning.allocate import allocate

        made = allocate(graph, replace(plan, gradients=gradients), lsqs)
    page = QuotaPage(
        model=str(path),
        target=f"{float(plan.target):.6g}",
        layers=[(layer.name, layer.shape, layer.weights) for layer in made.layers],
        kept={allocation.lsq: allocation.kept for allocation in made.allocations},
        notes=made.notes,
        look=look(output),
    )
    if plot is not None:
        with replacing(plot) as temporary:
            plot_quotas(page, temporary)
    emit(FORMATS[format](page), output)
