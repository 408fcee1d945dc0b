"""`effsparse prune`: one model in, the same model pruned to a target out, and what that did."""

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
from effsparse_cli.formats.changes import Changes
from effsparse_cli.formats.output import FORMS, ModelOutput
from effsparse_cli.formats.writing.masks import by_parameter, write_masks
from effsparse_cli.pruning import ALGORITHMS
from effsparse_cli.report.changes import FORMATS
from effsparse_cli.report.changes.page import Change

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.pruning.plan import PrunePlan, PruneResult

EXAMPLES = """\
Examples:

effsparse prune model.pt --target 0.99 -o pruned.pt

effsparse prune model.pt --method random --lsq igq --compression 1000 -o pruned.pt

effsparse prune model.onnx --target 0.9 --pattern 2:4 --masks-only -o masks.safetensors
"""

WRITE = "What is written"
Direct = Annotated[
    bool, o.option("--direct", help="The target is a direct sparsity; inactive connections stay.", panel=r.TARGET)
]
Algorithm = Annotated[
    str,
    o.choice(
        "--algorithm",
        help="One bottleneck pass, the paper's binary search, or its Algorithm 1",
        panel=r.TARGET,
        metavar="ALGORITHM",
        choices=ALGORITHMS,
    ),
]
AllowDisconnected = Annotated[
    bool, o.option("--allow-disconnected", help="Prune on where no connected network is left.", panel=r.TARGET)
]
FromMasks = Annotated[
    bool, o.option("--from-masks", help="Start at what is kept now; what is pruned stays so.", panel=r.RANK)
]
Pattern = Annotated[
    str | None,
    o.option("--pattern", help="Of every M inputs in a row at most N stay.", panel=r.RANK, metavar="2:4"),
]
Output = Annotated[
    Path | None, o.option("--output", "-o", help="Write the pruned model to this file.", panel=WRITE, metavar="FILE")
]
InPlace = Annotated[bool, o.option("--in-place", help="Write it over the model's own file.", panel=WRITE)]
MasksOnly = Annotated[
    bool, o.option("--masks-only", help="Write only the masks, as .safetensors or .npz.", panel=WRITE)
]
Form = Annotated[
    str,
    o.choice("--form", help="Zeroed weights, or torch.nn.utils.prune's", panel=WRITE, metavar="FORM", choices=FORMS),
]
KeepInactive = Annotated[
    bool, o.option("--keep-inactive", help="Leave inactive connections in, as the paper does.", panel=WRITE)
]
Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]


@with_load_arguments
def prune(
    load_arguments: LoadArguments,
    model: r.Model = None,
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
    output: Output = None,
    in_place: InPlace = False,
    masks_only: MasksOnly = False,
    form: Form = "zeros",
    keep_inactive: KeepInactive = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
    device: o.Device = "cpu",
) -> None:
    """Prune a model to a target effective sparsity: the connections that stay all work."""
    from effsparse_cli.commands.shared.project import find_model
    from effsparse_cli.formats import open_model_file
    from effsparse_cli.pruning.plan import PrunePlan, parse_pattern, parse_target

    path, options = find_model(model, load_arguments)
    written = _output(path, output, in_place, masks_only, form)
    plan = PrunePlan(
        target=parse_target(target, compression),
        method=method,
        lsq=lsq,
        direct=direct,
        seed=seed,
        algorithm=algorithm,
        pattern=parse_pattern(pattern),
        only=names(only),
        exclude=names(exclude),
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
        from effsparse_cli.analysis.opening import settle_sizes
        from effsparse_cli.analysis.sizes import counts_of
        from effsparse_cli.pruning.execute import prune_graph

        ranked = replace(plan, gradients=gradients)
        # What is left decides how large the open sizes must be: a dense model has paths at any size.
        graph, file = settle_sizes(graph, file, lambda g: counts_of(g.with_masks(prune_graph(g, ranked).masks)))
        pruned = prune_graph(graph, ranked)
    asked = f"{'sparsity ' + target if target else 'compression ' + str(compression)}"
    change = _compare(graph, plan, pruned, path, written, asked)
    if written is not None:
        with progress(f"writing {written.path.name}"):
            if written.masks_only:
                write_masks(by_parameter(pruned.masks, graph), written.path)
            else:
                file.write(written, Changes(kept=pruned.masks))
    emit(FORMATS[format](change), None)


def _output(path: Path, output: Path | None, in_place: bool, masks_only: bool, form: str) -> ModelOutput | None:
    if in_place and output is not None:
        raise UsageError("--in-place and -o both say where to write: choose one.")
    if output is None and not in_place:
        if masks_only or form != FORMS[0]:
            raise UsageError("--masks-only and --form say what is written, and nothing is: name a file with -o.")
        return None
    return ModelOutput(path=output or path, in_place=in_place, form=form, masks_only=masks_only)


def _compare(
    graph: Graph, plan: PrunePlan, pruned: PruneResult, path: Path, written: ModelOutput | None, asked: str
) -> Change:
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.pruning.ranking import quota_name

    before = analyze_graph(graph, count_embeddings=plan.count_embeddings)
    after = analyze_graph(graph.with_masks(pruned.masks), count_embeddings=plan.count_embeddings, patterns=True)
    words = {
        "target": f"{'direct' if plan.direct else 'effective'} {asked}",
        "method": plan.method,
        "lsq": quota_name(plan),
        "seed": f"seed {plan.seed}" if plan.method == "random" else "",
        "pattern": ":".join(map(str, plan.pattern or ())),
    }
    return Change(
        model=str(path),
        written=str(written.path) if written else None,
        asked={name: word for name, word in words.items() if word},
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
