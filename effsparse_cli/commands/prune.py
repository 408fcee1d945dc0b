"""`effsparse prune`: prune one model to a target and report the change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options import writing as w
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.formats.output import FORMS, Changes, ModelOutput
from effsparse_cli.formats.writing.masks import by_parameter, write_masks
from effsparse_cli.pruning import ALGORITHMS
from effsparse_cli.report.changes import FORMATS, Change

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.pruning.plan import PrunePlan, PruneResult

EXAMPLES = """\
Examples:

effsparse prune model.pt --target 0.99 -o pruned.pt

effsparse prune model.pt --method random --lsq igq --compression 1000 -o pruned.pt

effsparse prune model.onnx --target 0.9 --pattern 2:4 --masks-only -o masks.safetensors
"""

Direct = Annotated[
    bool, o.option("--direct", help="Target direct sparsity instead, keeping inactive connections.", panel=r.TARGET)
]
Algorithm = Annotated[
    str,
    o.choice(
        "--algorithm",
        help="Pruning algorithm (one pass, the paper's binary search, the paper's Algorithm 1)",
        panel=r.TARGET,
        metavar="ALGORITHM",
        choices=ALGORITHMS,
    ),
]
AllowDisconnected = Annotated[
    bool, o.option("--allow-disconnected", help="Continue even if the network becomes disconnected.", panel=r.TARGET)
]
FromMasks = Annotated[
    bool, o.option("--from-masks", help="Start from the current masks; pruned weights stay pruned.", panel=r.RANK)
]
Pattern = Annotated[
    str | None,
    o.option("--pattern", help="Keep at most N of every M consecutive inputs.", panel=r.RANK, metavar="2:4"),
]
Form = Annotated[
    str,
    o.choice("--form", help="Write zeros or torch.nn.utils.prune masks", panel=o.WRITE, metavar="FORM", choices=FORMS),
]
KeepInactive = Annotated[
    bool, o.option("--keep-inactive", help="Keep inactive connections, as in the paper.", panel=o.WRITE)
]
Format = Annotated[str, o.format_choice(FORMATS)]


@with_load_arguments
def prune(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    target: r.Target = None,
    compression: r.Compression = None,
    direct: Direct = False,
    allow_disconnected: AllowDisconnected = False,
    algorithm: Algorithm = "bottleneck",
    method: r.Method = "magnitude",
    lsq: r.Lsq = "",
    seed: r.Seed = 0,
    only: r.Only = None,
    exclude: r.Exclude = None,
    from_masks: FromMasks = False,
    pattern: Pattern = None,
    rounds: r.Rounds = 0,
    erk_strict: r.ErkStrict = False,
    data: r.Data = None,
    loss: r.Loss = "cross-entropy",
    output: w.Output = None,
    in_place: w.InPlace = False,
    masks_only: w.MasksOnly = False,
    form: Form = "zeros",
    keep_inactive: KeepInactive = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
    device: o.Device = "cpu",
) -> None:
    """Prune a model to a target effective sparsity."""
    from effsparse_cli.commands.shared.project import find_model
    from effsparse_cli.formats import open_model_file
    from effsparse_cli.pruning.plan import PrunePlan, parse_pattern, parse_target

    path, options = find_model(model, load_arguments)
    written = w.build_output(path, output, in_place=in_place, masks_only=masks_only, form=form)
    plan = PrunePlan(
        target=parse_target(target, compression),
        method=method,
        lsq=lsq,
        direct=direct,
        seed=seed,
        algorithm=algorithm,
        pattern=parse_pattern(pattern),
        only=split_names(only),
        exclude=split_names(exclude),
        from_masks=from_masks,
        keep_inactive=keep_inactive,
        allow_disconnected=allow_disconnected,
        erk_strict=erk_strict,
        count_embeddings=count_embeddings,
        rounds=rounds,
        device=device,
    )
    with progress(f"reading {path.name}"):
        file = open_model_file(path, options)
        if written is not None:
            file.check_output(written)
        graph, gradients = r.read_graph(file, (method, lsq), data=data, loss=loss, seed=seed)
    with progress("pruning"):
        from effsparse_cli.analysis.sizes import counts_of, settle_sizes
        from effsparse_cli.pruning.execute import prune_graph

        ranked = replace(plan, gradients=gradients)
        # Open sizes are settled for the pruned model: a dense model has paths at any size.
        graph, file = settle_sizes(graph, file, lambda g: counts_of(g.with_masks(prune_graph(g, ranked).masks)))
        pruned = prune_graph(graph, ranked)
    requested = f"{'sparsity ' + target if target else 'compression ' + str(compression)}"
    change = _compare(graph, plan, pruned, path, written, requested)
    if written is not None:
        with progress(f"writing {written.path.name}"):
            if written.masks_only:
                write_masks(by_parameter(pruned.masks, graph), written.path)
            else:
                file.write(written, Changes(kept=pruned.masks))
    emit(FORMATS[format](change), None)


def _compare(
    graph: Graph, plan: PrunePlan, pruned: PruneResult, path: Path, written: ModelOutput | None, requested: str
) -> Change:
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.pruning.ranking import quota_name

    before = analyze_graph(graph, count_embeddings=plan.count_embeddings)
    after = analyze_graph(graph.with_masks(pruned.masks), count_embeddings=plan.count_embeddings, patterns=True)
    words = {
        "target": f"{'direct' if plan.direct else 'effective'} {requested}",
        "method": plan.method,
        "lsq": quota_name(plan),
        "seed": f"seed {plan.seed}" if plan.method == "random" else "",
        "pattern": ":".join(map(str, plan.pattern or ())),
    }
    return Change(
        model=str(path),
        written=str(written.path) if written else None,
        request={name: word for name, word in words.items() if word},
        before=before,
        after=after,
        wanted=pruned.wanted,
        direct=plan.direct,
        removed=pruned.removed,
        out_of_reach=pruned.out_of_reach,
        cut=pruned.cut,
        hint="--allow-disconnected continues",
        notes=pruned.notes,
        look=look(None),
    )
