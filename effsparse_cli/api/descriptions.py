"""What `repair` reports: the result of folding or mending as a `Change`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effsparse_cli.formatting import dims, plural
from effsparse_cli.report.changes import Change

if TYPE_CHECKING:
    from effsparse_cli.folding.results import RepairResult
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.mending.result import MendResult
    from effsparse_cli.pruning.plan import PrunePlan

BIASES = "biases and norm parameters of unused channels are"


def describe_repair(model: str, done: RepairResult, options: LoadOptions) -> Change:
    shapes = ", ".join(dims(shape) for shape in done.before.input_shapes.values())
    compared = f"max output difference {done.difference:.2g} (largest output {done.scale:.3g}) for inputs of {shapes}"
    return Change(
        model=model,
        masks=done.masks,
        request={"repair": "some outputs could not be compared" if done.partly_run else compared},
        before=done.before,
        after=done.after,
        removed=done.removed,
        notes=tuple(_notes(done, options)),
        column="kept",
        details=_details(done),
        result=done,
    )


def _notes(done: RepairResult, options: LoadOptions) -> list[str]:
    kind = "a bias carrier" if done.folded == 1 else "bias carriers"
    constants = "constant is now in a bias" if done.folded == 1 else "constants are now in biases"
    carriers = f", {done.folded:,} of them {kind}, whose {constants}" if done.folded else ""
    notes = [f"{plural(done.removed, 'inactive connection')} removed{carriers}"]
    padding = done.before.totals.padding - done.after.totals.padding
    if padding > 0:
        only = "1 of them only reads" if padding == 1 else f"{padding:,} of them only read"
        they = "it" if padding == 1 else "they"
        notes.append(f"{only} padding at this input shape; {they} may be active at a larger one")
    if done.added:
        notes.append(f"biases added: {', '.join(done.added)}")
    if done.zeroed:
        number = sum(done.zeroed.values())
        are = "bias or norm parameter of an unused channel is" if number == 1 else BIASES
        notes.append(f"{number:,} {are} now zero")
    if options.outputs:
        notes.append(f"outputs other than {', '.join(options.outputs)} may have changed")
    if done.not_run:
        from effsparse_cli.folding.verify import describe_comparison

        notes.append(describe_comparison(done.not_run, done.partly_run))
    kept = [f"{x.layer} keeps {plural(x.connections, 'inactive connection')}: {x.reason}" for x in done.left]
    return notes + kept


def _details(done: RepairResult) -> dict[str, Any]:
    return {
        "removed": done.removed,
        "folded": done.folded,
        "left": [{"layer": x.layer, "connections": x.connections, "reason": x.reason} for x in done.left],
        "added": list(done.added),
        "zeroed": dict(done.zeroed),
        "difference": done.difference,
        "largest_output": done.scale,
        "not_run": list(done.not_run),
        "partly_run": done.partly_run,
    }


def describe_mending(
    model: str, graph: Graph, done: MendResult, plan: PrunePlan, *, mode: str, goal: str, is_written: bool
) -> Change:
    from effsparse_cli.analysis.measure import analyze_graph

    goals = {
        "target": f"effective {goal}",
        "reconnect": "collapsed layers restored",
        "budget-neutral": "same number of connections",
    }
    at_random = done.valueless > 0 or plan.method == "random"
    request = {mode: goals[mode], "method": f"random, seed {plan.seed}" if at_random else plan.method}
    notes = [f"{plural(done.added, 'connection')} revived, {done.removed:,} removed"]
    if done.valueless and not is_written:
        notes.append("revived connections have no values yet: add --dense FILE, or write --masks-only")
    if done.left:
        notes.append(
            f"still collapsed, because no connection that may be revived puts them on a path: {', '.join(done.left)}"
        )
    return Change(
        model=model,
        masks=done.masks,
        request=request | ({"lsq": plan.lsq} if plan.lsq else {}),
        before=analyze_graph(graph, count_embeddings=plan.count_embeddings),
        after=analyze_graph(graph.with_masks(done.masks), count_embeddings=plan.count_embeddings, patterns=True),
        wanted=done.wanted,
        out_of_reach=done.out_of_reach,
        cut=done.cut,
        removed=done.removed,
        notes=(*notes, *done.notes),
        details={"revived": done.added, "removed": done.removed, "values": done.values, "left": list(done.left)},
        result=done,
    )
