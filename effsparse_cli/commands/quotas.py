"""`effsparse quotas`: compare what layerwise quotas would keep in each layer of a model."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import show
from effsparse_cli.commands.shared.project import find_model
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.report.figure import check_plot
from effsparse_cli.report.quotas import Quotas

EXAMPLES = """\
Examples:
effsparse quotas model.pt --lsq igq,erk,uniform --target 0.99
effsparse quotas model.pt --lsq igq,from:synflow --compression 100 --plot quotas.svg
effsparse quotas model.pt --compression 1000 --plot sweep.svg --sweep
"""

Lsqs = Annotated[list[str] | None, r.lsq_option("Quotas to compare", metavar="QUOTA,...", default="igq,erk,uniform")]
Target = Annotated[str | None, r.target_option("Target direct sparsity.")]
Sweep = Annotated[
    bool, o.option("--sweep", help="Plot all compressions up to the target, as in the paper.", panel=o.OUTPUT)
]
Format = Annotated[str, o.format_choice(Quotas.FORMATS)]


@with_load_arguments
@r.with_ranking_arguments
def quotas(
    load_arguments: LoadArguments,
    *,
    model: o.ProjectModel = None,
    lsq: Lsqs = None,
    target: Target = None,
    compression: r.Compression = None,
    method: r.Method = "magnitude",
    ranking: r.RankingArguments,
    format: Format = "table",
    output: o.Output = None,
    plot: o.Plot = None,
    sweep: Sweep = False,
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Compare how layerwise quotas distribute a direct sparsity over the layers."""
    from effsparse_cli.api.surveying import quotas as compare_quotas

    if sweep and plot is None:
        raise UsageError("--sweep has no effect without --plot FILE.")
    file = find_model(model, load_arguments)
    if plot is not None:
        check_plot(plot)
    check_outputs({"-o": output, "--plot": plot}, [file.path, file.options.masks])
    done = compare_quotas(
        file,
        target=target,
        compression=compression,
        lsq=split_names(lsq),
        method=method,
        sweep=sweep,
        count_embeddings=count_embeddings,
        **ranking.keywords(),
    )
    if plot is not None:
        done.plot(plot)
    show(done, format, output)
