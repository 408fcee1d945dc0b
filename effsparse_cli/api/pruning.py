"""`prune`: a live module in place, or a model file to another file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from effsparse_cli.api.models import LiveModel, LoadKeywords, Model, Names, as_names, name_of, open_model
from effsparse_cli.api.rankings import check_arguments, choose_method, choose_quota, read_ranked_graph
from effsparse_cli.arguments import choose
from effsparse_cli.errors import TargetError, UsageError
from effsparse_cli.formats.model_file import ModelFile
from effsparse_cli.formats.output import Changes, ModelOutput
from effsparse_cli.formatting import percents, plural, thousands
from effsparse_cli.progress import step
from effsparse_cli.pruning import ALGORITHMS

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.pruning.plan import PrunePlan, PruneResult
    from effsparse_cli.report.changes import Change


def prune(
    model: Model,
    example_input: Any = None,
    target: str | float | None = None,
    *,
    compression: str | float | None = None,
    direct: bool = False,
    closest: bool = False,
    allow_disconnected: bool = False,
    algorithm: str = "bottleneck",
    method: str = "magnitude",
    lsq: str = "",
    seed: int = 0,
    only: Names = (),
    exclude: Names = (),
    from_masks: bool = False,
    pattern: str | None = None,
    rounds: int = 0,
    erk_strict: bool = False,
    data: Any = None,
    loss: Any = "cross-entropy",
    form: str | None = None,
    keep_inactive: bool = False,
    output: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    masks_only: bool = False,
    force: bool = False,
    count_embeddings: bool = False,
    device: str = "cpu",
    **load: Unpack[LoadKeywords],
) -> Change:
    """Prune a model to a target effective sparsity: a live module in place, a file to the file `output`.

    `target` is a sparsity (0.99, or "99%"); `compression` is the same as a ratio (100). With `direct` it is the direct
    sparsity. If the target is out of reach, `TargetError` is raised and nothing changes, unless `closest` asks for the
    nearest network that is still connected.

    `method` ranks the connections: magnitude, random, lamp, synflow, and with `data` snip, snip-iterative, force and
    grasp. `data` is a batch (inputs, targets), an iterable of batches such as a DataLoader, or a file; `loss` is
    "cross-entropy", "mse" or a function of outputs and targets. `lsq` is the layerwise quota: igq, erk, uniform,
    uniform+, smart-ratios, global, or "from:METHOD". `rounds` is the number of pruning rounds of iterative methods.
    `only` and `exclude` select layers by name patterns. `from_masks` starts from the current masks, so that pruned
    weights stay pruned.

    `form` is "prune" for masks of torch.nn.utils.prune, which stay in effect during training (the default for
    modules), or "zeros" for zeroed weights (the default for files).

    Examples:
        >>> change = effsparse.prune(model, x, 0.99, method="snip", lsq="erk", data=(images, labels))
        >>> print(change)
    """
    from effsparse_cli.analysis.sizes import counts_of, settle_sizes
    from effsparse_cli.formats.output import FORMS
    from effsparse_cli.pruning.execute import prune_graph
    from effsparse_cli.pruning.plan import PrunePlan, parse_pattern, parse_target

    plan = PrunePlan(
        target=parse_target(target, compression),
        method=choose_method(method),
        lsq=choose_quota(lsq),
        direct=direct,
        seed=seed,
        algorithm=choose(algorithm, ALGORITHMS, "--algorithm"),
        pattern=parse_pattern(pattern),
        only=as_names(only),
        exclude=as_names(exclude),
        from_masks=from_masks,
        keep_inactive=keep_inactive,
        allow_disconnected=allow_disconnected,
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
        device=device,
    )
    check_arguments((plan.method, plan.lsq), data=data, loss=loss, rounds=rounds, seed=seed, erk_strict=erk_strict)
    form = form and choose(form, FORMS, "--form")
    source = open_model(model, example_input, load)
    written = build_output(source, output, in_place=in_place, masks_only=masks_only, form=form, force=force)
    graph, gradients = read_ranked_graph(source, (plan.method, plan.lsq), data=data, loss=loss, seed=seed)
    plan = replace(plan, gradients=gradients)
    with step("pruning"):
        if not isinstance(source, LiveModel):
            # Open sizes are settled for the pruned model: a dense model has paths at any size.
            graph, source = settle_sizes(graph, source, lambda g: counts_of(g.with_masks(prune_graph(g, plan).masks)))
        pruned = prune_graph(graph, plan)
    change = _describe(graph, plan, pruned, name_of(source), target, compression)
    if pruned.out_of_reach and not closest:
        raise out_of_reach(change)
    if isinstance(source, LiveModel):
        from effsparse_cli.formats.torch.apply_masks import FORMS as APPLY

        APPLY[form or "prune"](source.module, pruned.masks)
        return replace(change, in_module=True)
    if written is not None:
        write_change(source, written, graph, Changes(kept=pruned.masks))
        change = replace(change, written=str(written.path))
    return change


def build_output(
    source: LiveModel | ModelFile,
    output: str | os.PathLike[str] | None,
    *,
    in_place: bool = False,
    masks_only: bool = False,
    form: str | None = None,
    force: bool = False,
) -> ModelOutput | None:
    """Return where and how to write a file, after checking it; None if nothing is written."""
    if isinstance(source, LiveModel):
        if output is not None or in_place or masks_only:
            raise UsageError("a live module is changed in memory: save it with torch.save instead of --output.")
        return None
    if in_place and output is not None:
        raise UsageError("use either --in-place or -o FILE, not both.")
    if output is None and not in_place:
        if masks_only or form is not None or force:
            unused = "--masks-only" if masks_only else "--form" if form is not None else "--force"
            raise UsageError(f"{unused} has no effect, because nothing is written: add -o FILE.")
        return None
    path = source.path if output is None else Path(output)
    written = ModelOutput(path=path, in_place=in_place, form=form or "zeros", masks_only=masks_only, force=force)
    source.check_output(written)
    return written


def write_change(source: ModelFile, written: ModelOutput, graph: Graph, changes: Changes, check: Any = None) -> None:
    from effsparse_cli.formats.writing.masks import by_parameter, write_masks

    with step(f"writing {written.path.name}"):
        if written.masks_only:
            write_masks(by_parameter(changes.kept, graph), written.path)
        else:
            source.write(written, changes, check)


def out_of_reach(change: Change) -> TargetError:
    totals, wanted = change.totals, change.wanted or 0
    (sparsity,) = percents([totals.connections - change.reached], totals.connections)
    cut = f"cut the network at {change.cut}" if change.cut else "leave nothing active"
    return TargetError(
        f"{change.model}: the target of {plural(wanted, 'connection')} is out of reach: the next step would {cut}. The "
        f"closest network has {thousands(change.reached)} ({sparsity}): --closest accepts it"
        f"{f'; {change.hint}' if change.hint else ''}. Nothing was changed."
    )


def _describe(
    graph: Graph,
    plan: PrunePlan,
    pruned: PruneResult,
    model: str,
    target: str | float | None,
    compression: str | float | None,
) -> Change:
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.pruning.ranking import quota_name
    from effsparse_cli.report.changes import Change

    requested = f"sparsity {target}" if target is not None else f"compression {compression}"
    words = {
        "target": f"{'direct' if plan.direct else 'effective'} {requested}",
        "method": plan.method,
        "lsq": quota_name(plan),
        "seed": f"seed {plan.seed}" if plan.method == "random" else "",
        "pattern": ":".join(map(str, plan.pattern or ())),
    }
    return Change(
        model=model,
        masks=pruned.masks,
        request={name: word for name, word in words.items() if word},
        before=analyze_graph(graph, count_embeddings=plan.count_embeddings),
        after=analyze_graph(graph.with_masks(pruned.masks), count_embeddings=plan.count_embeddings, patterns=True),
        wanted=pruned.wanted,
        direct=plan.direct,
        removed=pruned.removed,
        out_of_reach=pruned.out_of_reach,
        cut=pruned.cut,
        hint="--allow-disconnected prunes further, to a disconnected network",
        notes=pruned.all_notes,
        result=pruned,
    )
