"""`effsparse curve`: effective compression of a model over the whole range of direct compression."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs, replacing
from effsparse_cli.report.curves import FORMATS, CurvePage, Line, Point, plot_curves
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
    r.lsq_option("Quotas to compare", metavar="QUOTA,...", default="igq for magnitude and random, else global"),
]
Seeds = Annotated[
    int,
    o.option("--seeds", help="Number of random seeds, starting at --seed.", panel=r.RANK, metavar="N", default=True),
]
Points = Annotated[
    int, o.option("--points", help="Number of points on each curve.", panel=o.OUTPUT, metavar="N", default=True)
]
Format = Annotated[str, o.format_choice(FORMATS)]


@with_load_arguments
def curve(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
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
    plot: o.Plot = None,
    count_embeddings: o.CountEmbeddings = False,
    device: o.Device = "cpu",
) -> None:
    """Show how effective compression depends on direct compression."""
    from effsparse_cli.commands.shared.project import find_model

    path, options = find_model(model, load_arguments)
    if seeds < 1 or points < 2:
        raise UsageError("--seeds must be at least 1, --points at least 2.")
    if plot is not None:
        check_plot(plot)
    check_outputs({"-o": output, "--plot": plot}, [path, options.masks])

    from fractions import Fraction

    from effsparse_cli.formats import open_model_file
    from effsparse_cli.pruning.plan import PrunePlan

    with progress(f"reading {path.name}"):
        file = open_model_file(path, options)
        graph, gradients = r.read_graph(file, (method, *split_names(lsq)), data=data, loss=loss, seed=seed)
    lines, connections = [], 0
    # Only random scores depend on the seed.
    used_seeds = range(seed, seed + seeds) if method == "random" else (seed,)
    plan = PrunePlan(
        target=Fraction(0),
        method=method,
        seed=seed,
        only=split_names(only),
        exclude=split_names(exclude),
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
        device=device,
        gradients=gradients,
    )
    quotas = [replace(plan, lsq=quota) for quota in split_names(lsq) or ("",)]
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.sizes import settle_sizes
        from effsparse_cli.pruning.curve import find_curve

        graph, _ = settle_sizes(graph, file, lambda g: find_curve(g, quotas[0], points))
    for quota in quotas:
        with progress(f"following {method} {quota.lsq}"):
            curves = [find_curve(graph, replace(quota, seed=s), points) for s in used_seeds]
        lines.append(_line(curves))
        connections = curves[0].connections
    page = CurvePage(str(path), connections, lines, look(output))
    if plot is not None:
        with replacing(plot) as temporary:
            plot_curves(page, temporary)
    emit(FORMATS[format](page), output)


def _line(curves: list[Curve]) -> Line:
    """Combine the curves of several seeds, which keep the same numbers of connections up to ties."""
    points = tuple(
        Point(same[0].kept, tuple(point.active for point in same))
        for same in zip(*(curve.points for curve in curves), strict=True)
    )
    first = curves[0]
    last = tuple((curve.last.kept, curve.last.active) for curve in curves)
    return Line(f"{first.method}, {first.lsq}", tuple(curve.seed for curve in curves), points, last)
