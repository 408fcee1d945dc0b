"""Mend the mask of a model for `effsparse repair` with --target, --reconnect or --budget-neutral, and write it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.output import Changes, ModelOutput
from effsparse_cli.report.changes import Change

if TYPE_CHECKING:
    from effsparse_cli.formats import ModelFile
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.mending.result import DenseWeights, MendResult
    from effsparse_cli.pruning.plan import PrunePlan


@dataclass(frozen=True, kw_only=True)
class MendArguments:
    """Options of the command line. Without a target and without `reconnect`, the number of connections is kept."""

    target: str | None
    compression: str | None
    reconnect: bool
    dense: Path | None
    method: str
    lsq: str
    seed: int
    only: list[str] | None
    exclude: list[str] | None
    count_embeddings: bool

    @property
    def mode(self) -> str:
        if self.target or self.compression:
            return "target"
        return "reconnect" if self.reconnect else "budget-neutral"

    def describe(self, at_random: bool) -> dict[str, str]:
        wanted = f"sparsity {self.target}" if self.target else f"compression {self.compression}"
        goals = {
            "target": f"effective {wanted}",
            "reconnect": "collapsed layers restored",
            "budget-neutral": "same number of connections",
        }
        method = f"random, seed {self.seed}" if at_random or self.method == "random" else self.method
        return {self.mode: goals[self.mode], "method": method} | ({"lsq": self.lsq} if self.lsq else {})


def run(file: ModelFile, written: ModelOutput | None, arguments: MendArguments) -> Change:
    from effsparse_cli.pruning.plan import PrunePlan, parse_target

    target = parse_target(arguments.target, arguments.compression) if arguments.mode == "target" else Fraction(0)
    plan = PrunePlan(
        target=target,
        method=arguments.method,
        lsq=arguments.lsq,
        seed=arguments.seed,
        only=split_names(arguments.only),
        exclude=split_names(arguments.exclude),
        count_embeddings=arguments.count_embeddings,
    )
    with progress(f"reading {file.path.name}"):
        from effsparse_cli.formats import load

        graph = file.graph()
        dense = None if arguments.dense is None else _values(load(arguments.dense, file.options))
    with progress("mending"):
        from effsparse_cli.analysis.sizes import counts_of, settle_sizes

        def judge(g: Graph) -> Hashable:
            return counts_of(g.with_masks(_mend(arguments.mode, g, plan, dense).masks))

        graph, file = settle_sizes(graph, file, judge)
        done = _mend(arguments.mode, graph, plan, dense)
    change = _change(file.path, written, graph, done, arguments)
    if written is not None:
        with progress(f"writing {written.path.name}"):
            _write(file, written, graph, done, dense)
    return change


def _values(graph: Graph) -> DenseWeights:
    return {name: layer.values() for name, layer in graph.layers.items() if layer.values is not None}


def _mend(mode: str, graph: Graph, plan: PrunePlan, dense: DenseWeights | None) -> MendResult:
    from effsparse_cli.mending.budget import keep_budget
    from effsparse_cli.mending.reconnect import reconnect
    from effsparse_cli.mending.target import mend_to_target

    modes = {"target": mend_to_target, "reconnect": reconnect, "budget-neutral": keep_budget}
    return modes[mode](graph, plan, dense)


def _write(file: ModelFile, written: ModelOutput, graph: Graph, done: MendResult, dense: DenseWeights | None) -> None:
    from effsparse_cli.formats.writing.masks import by_parameter, write_masks
    from effsparse_cli.mending.result import find_new_weights

    if written.masks_only:
        write_masks(by_parameter(done.masks, graph), written.path)
        return
    if done.valueless:
        raise UsageError(
            f"{done.valueless:,} revived connections have no value: their weights are zero in the file. Give the "
            "weights before pruning with --dense FILE, or write --masks-only and train again."
        )
    from effsparse_cli.folding.execute import check_revived

    values = find_new_weights(graph, done, dense)

    def check(path: Path) -> None:
        check_revived(file.reopen(path), graph, done.masks, values)

    file.write(written, Changes(kept=done.masks, weights=values), check)


def _change(
    path: Path, written: ModelOutput | None, graph: Graph, done: MendResult, arguments: MendArguments
) -> Change:
    from effsparse_cli.analysis.measure import analyze_graph

    before = analyze_graph(graph, count_embeddings=arguments.count_embeddings)
    after = analyze_graph(graph.with_masks(done.masks), count_embeddings=arguments.count_embeddings, patterns=True)
    notes = [f"{done.added:,} connections revived, {done.removed:,} removed"]
    if done.valueless and written is None:
        notes.append("revived connections have no values yet: add --dense FILE, or write --masks-only")
    if done.left:
        notes.append(
            f"still collapsed, because no connection that may be revived puts them on a path: {', '.join(done.left)}"
        )
    return Change(
        model=str(path),
        written=str(written.path) if written else None,
        request=arguments.describe(done.valueless > 0),
        before=before,
        after=after,
        wanted=done.wanted,
        out_of_reach=done.out_of_reach,
        cut=done.cut,
        notes=(*notes, *done.notes),
        look=look(None),
        details={"revived": done.added, "removed": done.removed, "values": done.values, "left": list(done.left)},
    )
