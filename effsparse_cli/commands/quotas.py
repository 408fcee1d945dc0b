"""`effsparse quotas`: compare what layerwise quotas would keep in each layer of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.formats.writing.atomic import check_outputs, replacing
from effsparse_cli.report.figure import check_plot
from effsparse_cli.report.quotas import FORMATS, QuotaPage, plot_quotas

EXAMPLES = """\
Examples:

effsparse quotas model.pt --lsq igq,erk,uniform --target 0.99

effsparse quotas model.pt --lsq igq,from:synflow --compression 100 --plot quotas.svg
"""

Lsqs = Annotated[list[str] | None, r.lsq_option("Quotas to compare", metavar="QUOTA,...", default="igq,erk,uniform")]
Target = Annotated[str | None, r.target_option("Target direct sparsity.")]
Format = Annotated[str, o.format_choice(FORMATS)]


@with_load_arguments
def quotas(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    lsq: Lsqs = None,
    target: Target = None,
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
    plot: o.Plot = None,
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Compare how layerwise quotas distribute a direct sparsity over the layers."""
    from effsparse_cli.commands.shared.project import find_model

    path, options = find_model(model, load_arguments)
    if plot is not None:
        check_plot(plot)
    check_outputs({"-o": output, "--plot": plot}, [path, options.masks])
    lsqs = split_names(lsq) or ("igq", "erk", "uniform")

    from effsparse_cli.pruning.plan import PrunePlan, parse_target

    plan = PrunePlan(
        target=parse_target(target, compression),
        method=method,
        only=split_names(only),
        exclude=split_names(exclude),
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
    )
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.sizes import settle_sizes
        from effsparse_cli.formats import open_model_file

        file = open_model_file(path, options)
        graph, gradients = r.read_graph(file, (method, *lsqs), data=data, loss=loss)
        graph, _ = settle_sizes(graph, file)
    with progress("computing quotas"):
        from effsparse_cli.pruning.allocate import allocate

        result = allocate(graph, replace(plan, gradients=gradients), lsqs)
    page = QuotaPage(
        model=str(path),
        target=f"{float(plan.target):.6g}",
        layers=[(layer.name, layer.shape, layer.weights) for layer in result.layers],
        kept={allocation.lsq: allocation.kept for allocation in result.allocations},
        notes=result.notes,
        look=look(output),
    )
    if plot is not None:
        with replacing(plot) as temporary:
            plot_quotas(page, temporary)
    emit(FORMATS[format](page), output)
