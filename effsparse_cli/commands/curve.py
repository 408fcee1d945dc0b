"""`effsparse curve`: effective compression of a model over the whole range of direct compression."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import show
from effsparse_cli.commands.shared.project import find_model
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.report.curves import Curves
from effsparse_cli.report.figure import check_plot

EXAMPLES = """\
Examples:
effsparse curve model.pt --method random --lsq uniform,erk,igq --seeds 5 --plot curve.svg
effsparse curve model.pt --method magnitude --lsq global --format csv -o curve.csv
"""

Methods = Annotated[list[str] | None, r.methods_option("Scores to compare", default="magnitude")]
Lsqs = Annotated[
    list[str] | None,
    r.lsq_option("Quotas to compare", metavar="QUOTA,...", default="igq for magnitude and random, else global"),
]
Seeds = Annotated[
    int,
    o.number(
        "--seeds",
        help="Number of random seeds, starting at --seed.",
        panel=r.RANK,
        metavar="N",
        example="5",
        default=True,
    ),
]
Points = Annotated[
    int,
    o.number(
        "--points", help="Number of points on each curve.", panel=o.OUTPUT, metavar="N", example="25", default=True
    ),
]
Format = Annotated[str, o.format_choice(Curves.FORMATS)]


@with_load_arguments
@r.with_ranking_arguments
def curve(
    load_arguments: LoadArguments,
    *,
    model: o.ProjectModel = None,
    method: Methods = None,
    lsq: Lsqs = None,
    seed: r.Seed = 0,
    seeds: Seeds = 1,
    points: Points = 25,
    ranking: r.RankingArguments,
    format: Format = "table",
    output: o.Output = None,
    plot: o.Plot = None,
    count_embeddings: o.CountEmbeddings = False,
    device: o.Device = "cpu",
) -> None:
    """Show how effective compression depends on direct compression."""
    from effsparse_cli.api.surveying import curve as find_curves

    file = find_model(model, load_arguments)
    if plot is not None:
        check_plot(plot)
    check_outputs({"-o": output, "--plot": plot}, [file.path, file.options.masks])
    curves = find_curves(
        file,
        method=split_names(method),
        lsq=split_names(lsq),
        seed=seed,
        seeds=seeds,
        points=points,
        count_embeddings=count_embeddings,
        device=device,
        **ranking.keywords(),
    )
    if plot is not None:
        curves.plot(plot)
    show(curves, format, output)
