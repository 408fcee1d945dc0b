"""`effsparse curve`: effective against direct compression of a model, over the whole range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import names
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs, replacing
from effsparse_cli.report.curves import FORMATS
from effsparse_cli.report.curves.page import CurvePage, Line, Point
from effsparse_cli.report.curves.plot import plot_curves
from effsparse_cli.report.figure import check_plot

if TYPE_CHECKING:
    from effsparse_cli.pruning.curve import Curve

EXAMPLES = """\
Examples:

effsparse curve model.pt --method random --lsq uniform,erk,igq --seeds 5 --plot curve.svg

effsparse curve model.pt --method magnitude --lsq global --format csv -o curve.csv
"""

Lsqs = Annotated[
    list[str] | None,
    o.option(
        "--lsq",
        help=f"Quotas to compare, of {', '.join(r.QUOTAS)}, from:METHOD; the method's own by default.",
        panel=r.RANK,
        metavar="QUOTA,...",
    ),
]
Seeds = Annotated[
    int, o.option("--seeds", help="So many seeds of --method random, from --seed on.", panel=r.RANK, metavar="N")
]
Points = Annotated[int, o.option("--points", help="So many compressions, 25 by default.", panel=o.SHOW, metavar="N")]
Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]
Plot = Annotated[Path | None, o.option("--plot", help="Draw it, as .svg, .png or .pdf.", panel=o.SHOW, metavar="FILE")]


@with_load_arguments
def curve(
    load_arguments: LoadArguments,
    model: r.Model = None,
    method: r.Method = "magnitude",
    lsq: Lsqs = None,
    seed: r.Seed = 0,
    seeds: Seeds = 1,
    points: Points = 25,
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
    device: o.Device = "cpu",
) -> None:
    """How effective compression follows direct compression, and where the network disconnects."""
    from effsparse_cli.commands.shared.project import find_model

    path, options = find_model(model, load_arguments)
    if seeds < 1 or points < 2:
        raise UsageError("--seeds is 1 or more, --points 2 or more.")
    if plot is not None:
        check_plot(plot)
    check_outputs({"-o": output, "--plot": plot}, [path, options.masks])

    from fractions import Fraction

    from effsparse_cli.formats import open_model_file
    from effsparse_cli.pruning.plan import PrunePlan

    with progress(f"reading {path.name}"):
        file = open_model_file(path, options)
        graph, gradients = r.read_graph(file, (method, *names(lsq)), data=data, loss=loss, seed=seed)
    lines, connections = [], 0
    # Seeds differ only where chance decides.
    drawn = range(seed, seed + seeds) if method == "random" else (seed,)
    plan = PrunePlan(
        target=Fraction(0),
        method=method,
        seed=seed,
        only=names(only),
        exclude=names(exclude),
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
        device=device,
        gradients=gradients,
    )
    quotas = [replace(plan, lsq=quota) for quota in names(lsq) or ("",)]
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.opening import settle_sizes
        from effsparse_cli.pruning.curve import find_curve

        graph, _ = settle_sizes(graph, file, lambda g: find_curve(g, quotas[0], points))
    for quota in quotas:
        with progress(f"following {method} {quota.lsq}"):
            found = [find_curve(graph, replace(quota, seed=s), points) for s in drawn]
        lines.append(_line(found))
        connections = found[0].connections
    page = CurvePage(str(path), connections, lines, look(output))
    if plot is not None:
        with replacing(plot) as temporary:
            plot_curves(page, temporary)
    emit(FORMATS[format](page), output)


def _line(found: list[Curve]) -> Line:
    """One curve of several seeds: they keep the same numbers of connections, up to ties."""
    points = tuple(
        Point(together[0].kept, tuple(point.active for point in together))
        for together in zip(*(curve.points for curve in found), strict=True)
    )
    first = found[0]
    last = tuple((curve.last.kept, curve.last.active) for curve in found)
    return Line(f"{first.method}, {first.lsq}", tuple(curve.seed for curve in found), points, last)
