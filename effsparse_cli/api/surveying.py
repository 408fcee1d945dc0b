"""`quotas` and `curve`: what methods and quotas would do to a model, at one sparsity and over the whole range."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack

from effsparse_cli.api.models import LiveModel, LoadKeywords, Model, Names, as_names, name_of, open_model
from effsparse_cli.api.rankings import check_arguments, choose_method, choose_quota, read_ranked_graph
from effsparse_cli.errors import UsageError
from effsparse_cli.progress import step

if TYPE_CHECKING:
    from effsparse_cli.pruning.curve import Curve
    from effsparse_cli.report.curves import Curves, Line
    from effsparse_cli.report.quotas import Quotas

DEFAULT_QUOTAS = ("igq", "erk", "uniform")
SWEPT = 30
"""Number of compressions in a sweep."""


def quotas(
    model: Model,
    example_input: Any = None,
    target: str | float | None = None,
    *,
    compression: str | float | None = None,
    lsq: Names = DEFAULT_QUOTAS,
    method: str = "magnitude",
    only: Names = (),
    exclude: Names = (),
    rounds: int = 0,
    erk_strict: bool = False,
    data: Any = None,
    loss: Any = "cross-entropy",
    sweep: bool = False,
    count_embeddings: bool = False,
    **load: Unpack[LoadKeywords],
) -> Quotas:
    """Compare how layerwise quotas distribute a direct sparsity over the layers. The model is not changed.

    `lsq` names the quotas, as in `prune`; `method` is the ranking that "global" uses. With `sweep`, they are also
    computed at smaller compressions, for the result's `plot`.

    Examples:
        >>> print(effsparse.quotas(model, x, 0.99, lsq=["igq", "erk"]))
    """
    from effsparse_cli.analysis.sizes import settle_sizes
    from effsparse_cli.pruning.allocate import allocate
    from effsparse_cli.pruning.plan import PrunePlan, parse_target
    from effsparse_cli.report.quotas import Quotas

    lsqs = tuple(map(choose_quota, as_names(lsq))) or DEFAULT_QUOTAS
    plan = PrunePlan(
        target=parse_target(target, compression),
        method=choose_method(method),
        only=as_names(only),
        exclude=as_names(exclude),
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
    )
    check_arguments((plan.method, *lsqs), data=data, loss=loss, rounds=rounds, erk_strict=erk_strict)
    source = open_model(model, example_input, load)
    graph, gradients = read_ranked_graph(source, (plan.method, *lsqs), data=data, loss=loss)
    if not isinstance(source, LiveModel):
        graph, _ = settle_sizes(graph, source)
    plan = replace(plan, gradients=gradients)
    whole = 1 / (1 - plan.target)
    ratios = [Fraction(float(whole) ** (i / SWEPT)) for i in range(1, SWEPT)] if sweep else []
    swept: dict[str, list[tuple[float, tuple[int, ...]]]] = {}
    with step("computing quotas", len(ratios) + 1) as advance:
        for ratio in (*ratios, whole):
            done = allocate(graph, replace(plan, target=1 - 1 / ratio), lsqs)
            for allocation in done.allocations if sweep else ():
                swept.setdefault(allocation.lsq, []).append((float(ratio), allocation.kept))
            advance(1)
    return Quotas(
        model=name_of(source),
        target=f"{float(plan.target):.6g}",
        layers=[(layer.name, layer.shape, layer.weights) for layer in done.layers],
        kept={allocation.lsq: allocation.kept for allocation in done.allocations},
        sweep=swept,
        notes=done.notes,
    )


def curve(
    model: Model,
    example_input: Any = None,
    *,
    method: Names = "magnitude",
    lsq: Names = (),
    seed: int = 0,
    seeds: int = 1,
    points: int = 25,
    only: Names = (),
    exclude: Names = (),
    rounds: int = 0,
    erk_strict: bool = False,
    data: Any = None,
    loss: Any = "cross-entropy",
    count_embeddings: bool = False,
    device: str = "cpu",
    **load: Unpack[LoadKeywords],
) -> Curves:
    """Show how effective compression depends on direct compression: one line per method and quota.

    `method` and `lsq` are as in `prune`, one or several; with several of both, every combination is a line. `points`
    are spread evenly, on a log scale, up to the last connected network. With `seeds`, random rankings are drawn that
    many times, starting at `seed`. The model is not changed.

    Examples:
        >>> curves = effsparse.curve(model, x, method=["random", "magnitude"], lsq=["erk", "igq"])
        >>> curves.plot("curve.svg")
    """
    from effsparse_cli.analysis.sizes import settle_sizes
    from effsparse_cli.pruning.curve import find_curve, find_last
    from effsparse_cli.pruning.plan import PrunePlan
    from effsparse_cli.report.curves import Curves

    for option, number, least in (("--seeds", seeds, 1), ("--points", points, 2)):
        if number < least:
            raise UsageError(f"{option} {number}: use {least} or more.")
    methods = tuple(map(choose_method, as_names(method))) or ("magnitude",)
    lsqs = tuple(map(choose_quota, as_names(lsq))) or ("",)
    if seeds > 1 and "random" not in methods:
        raise UsageError("--seeds has no effect here: only random depends on the seed.")
    plan = PrunePlan(
        target=Fraction(0),
        seed=seed,
        only=as_names(only),
        exclude=as_names(exclude),
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
        device=device,
    )
    plans = [replace(plan, method=each, lsq=quota) for each in methods for quota in lsqs]
    check_arguments((*methods, *lsqs), data=data, loss=loss, rounds=rounds, seed=seed, erk_strict=erk_strict)
    source = open_model(model, example_input, load)
    graph, gradients = read_ranked_graph(source, (*methods, *lsqs), data=data, loss=loss, seed=seed)
    plans = [replace(each, gradients=gradients) for each in plans]
    if not isinstance(source, LiveModel):
        with step(f"reading {source.path.name}"):
            graph, _ = settle_sizes(graph, source, lambda g: find_curve(g, plans[0], points))
    lines, connections = [], 0
    with step("computing curves", len(plans)) as advance:
        for each in plans:
            # Only random scores depend on the seed.
            drawn = [replace(each, seed=s) for s in (range(seed, seed + seeds) if each.method == "random" else (seed,))]
            # All seeds have points at the same compressions.
            furthest = max(find_last(graph, p).compression for p in drawn) if len(drawn) > 1 else None
            curves = [find_curve(graph, p, points, furthest) for p in drawn]
            lines.append(_line(curves))
            connections = curves[0].connections
            advance(1)
    return Curves(name_of(source), connections, lines)


def _line(curves: list[Curve]) -> Line:
    """Combine the curves of several seeds, which keep the same numbers of connections up to ties."""
    from effsparse_cli.report.curves import Line, Point

    points = tuple(
        Point(same[0].kept, tuple(point.active for point in same))
        for same in zip(*(curve.points for curve in curves), strict=True)
    )
    first = curves[0]
    last = tuple((curve.last.kept, curve.last.active) for curve in curves)
    return Line(f"{first.method}, {first.lsq}", tuple(curve.seed for curve in curves), points, last)
