"""`repair`: remove inactive connections without changing the outputs, or mend masks to meet a target."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from effsparse_cli.api.models import LiveModel, LoadKeywords, Model, Names, as_names, name_of, open_model
from effsparse_cli.api.pruning import build_output, out_of_reach, write_change
from effsparse_cli.api.rankings import WITHOUT_DATA, choose_method, choose_quota
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.model_file import ModelFile
from effsparse_cli.formats.output import Changes, ModelOutput
from effsparse_cli.formats.writing.atomic import check_target
from effsparse_cli.progress import step

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.mending.result import DenseWeights, MendResult
    from effsparse_cli.pruning.plan import PrunePlan
    from effsparse_cli.report.changes import Change


def repair(
    model: Model,
    example_input: Any = None,
    *,
    target: str | float | None = None,
    compression: str | float | None = None,
    reconnect: bool = False,
    budget_neutral: bool = False,
    closest: bool = False,
    dense: Model | None = None,
    method: str = "magnitude",
    lsq: str = "",
    seed: int = 0,
    only: Names = (),
    exclude: Names = (),
    add_biases: bool = True,
    output: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    masks_only: bool = False,
    force: bool = False,
    count_embeddings: bool = False,
    **load: Unpack[LoadKeywords],
) -> Change:
    """Remove the inactive connections of a model without changing what it computes: a live module in place, a file to
    the file `output`.

    `example_input` is as in `analyze`; the values of integers matter too. Constants carried by inactive connections are
    folded into biases and running means. A layer that has neither gets a bias, a new parameter that existing optimizers
    do not know, unless `add_biases` is False. Masks of torch.nn.utils.prune and parametrizations are updated with
    their weights. The model is run on random inputs before and after; if the outputs differ by more than rounding, an
    error is raised and nothing changes.

    With one of the following, the mask is mended instead, and the outputs change: `target` or `compression` (an
    effective sparsity, reached by removing and reviving connections), `reconnect` (restore collapsed layers with as few
    connections as possible), `budget_neutral` (the same number of connections, all of them active). `dense` is the
    unpruned model, for the values of revived weights.

    Examples:
        >>> change = effsparse.repair(model, x)
        >>> change.removed
    """
    modes = {
        "target": target is not None or compression is not None,
        "reconnect": reconnect,
        "budget-neutral": budget_neutral,
    }
    chosen = [mode for mode, given in modes.items() if given]
    if len(chosen) > 1:
        raise UsageError("use only one of --target (or --compression), --reconnect and --budget-neutral.")
    if not chosen:
        if dense is not None or lsq or only or exclude or masks_only or closest:
            raise UsageError(
                "--dense, --lsq, --only, --exclude, --closest and --masks-only are for --target, --reconnect and "
                "--budget-neutral. Without one of these, inactive connections are removed and their constants folded "
                "into biases."
            )
        source = open_model(model, example_input, load, to_change=True)
        if isinstance(source, LiveModel):
            return _repair_module(source, count_embeddings, add_biases)
        written = build_output(source, output, in_place=in_place, force=force)
        return _repair_file(source, written, count_embeddings)
    from effsparse_cli.pruning.plan import PrunePlan, parse_target

    plan = PrunePlan(
        target=parse_target(target, compression) if modes["target"] else Fraction(0),
        method=choose_method(method),
        lsq=choose_quota(lsq),
        seed=seed,
        only=as_names(only),
        exclude=as_names(exclude),
        count_embeddings=count_embeddings,
    )
    if plan.method not in WITHOUT_DATA:
        raise UsageError(f"--method {method} needs data, which repair does not take: use {', '.join(WITHOUT_DATA)}.")
    source = open_model(model, example_input, load)
    unpruned = None if dense is None else open_model(dense, example_input, load)
    if output is not None:
        read = (getattr(unpruned, "path", None), source.options.masks)
        check_target(Path(output), "-o", [path for path in read if path is not None])
    written = build_output(source, output, in_place=in_place, masks_only=masks_only, force=force)
    goal = f"sparsity {target}" if target is not None else f"compression {compression}"
    return _mend(source, written, chosen[0], plan, unpruned, closest=closest, goal=goal)


def _repair_module(source: LiveModel, count_embeddings: bool, add_biases: bool) -> Change:
    from effsparse_cli.api.descriptions import describe_repair
    from effsparse_cli.folding.torch.execute import repair_module

    args, kwargs = source.arguments()
    with step("repairing"):
        done = repair_module(source.module, args, kwargs, source.options, count_embeddings, add_biases)
    return replace(describe_repair(source.name, done, source.options), in_module=True)


def _repair_file(source: ModelFile, written: ModelOutput | None, count_embeddings: bool) -> Change:
    from effsparse_cli.analysis.sizes import settle_file
    from effsparse_cli.api.descriptions import describe_repair
    from effsparse_cli.folding.execute import check_repaired, repair_file

    with step(f"reading {source.path.name}"):
        file, notes = settle_file(source)
    with step(f"repairing {file.path.name}"):
        done, changes = repair_file(file, count_embeddings)
    change = describe_repair(str(file.path), done, file.options)
    if written is not None:
        with step(f"writing {written.path.name}"):
            file.write(written, changes, lambda new: check_repaired(file.reopen(new), done))
        change = replace(change, written=str(written.path))
    return replace(change, notes=(*change.notes, *notes, *file.left_out()))


def _mend(
    source: LiveModel | ModelFile,
    written: ModelOutput | None,
    mode: str,
    plan: PrunePlan,
    dense: LiveModel | ModelFile | None,
    *,
    closest: bool,
    goal: str,
) -> Change:
    from effsparse_cli.analysis.sizes import counts_of, settle_sizes
    from effsparse_cli.api.descriptions import describe_mending

    with step(f"reading {name_of(source)}"):
        graph = source.graph()
        weights = None if dense is None else _values(dense.graph())
    with step("mending"):
        if not isinstance(source, LiveModel):

            def judge(g: Graph) -> Hashable:
                return counts_of(g.with_masks(_mended(mode, g, plan, weights).masks))

            graph, source = settle_sizes(graph, source, judge)
        done = _mended(mode, graph, plan, weights)
    change = describe_mending(name_of(source), graph, done, plan, mode=mode, goal=goal, is_written=written is not None)
    if done.out_of_reach and not closest:
        raise out_of_reach(change)
    if written is None and not isinstance(source, LiveModel):
        return change
    if done.valueless and not (written and written.masks_only):
        raise UsageError(
            f"{done.valueless:,} revived connections have no value: their weights are zero in the model. Give the "
            "weights before pruning with --dense FILE, or write --masks-only and train again."
        )
    from effsparse_cli.mending.result import find_new_weights

    values = {} if written and written.masks_only else find_new_weights(graph, done, weights)
    if isinstance(source, LiveModel):
        from effsparse_cli.formats.torch.apply_masks import replace_weights

        replace_weights(source.module, done.masks, values)
        return replace(change, in_module=True)
    assert written is not None
    file = source

    def check(path: Path) -> None:
        from effsparse_cli.folding.execute import check_revived

        check_revived(file.reopen(path), graph, done.masks, values)

    write_change(file, written, graph, Changes(kept=done.masks, weights=values), check)
    return replace(change, written=str(written.path))


def _values(graph: Graph) -> DenseWeights:
    return {name: layer.values() for name, layer in graph.layers.items() if layer.values is not None}


def _mended(mode: str, graph: Graph, plan: PrunePlan, dense: DenseWeights | None) -> MendResult:
    from effsparse_cli.mending.budget import keep_budget
    from effsparse_cli.mending.reconnect import reconnect
    from effsparse_cli.mending.target import mend_to_target

    modes = {"target": mend_to_target, "reconnect": reconnect, "budget-neutral": keep_budget}
    return modes[mode](graph, plan, dense)
