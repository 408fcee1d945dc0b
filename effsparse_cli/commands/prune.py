"""`effsparse prune`: prune one model to a target and report the change."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options import writing as w
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.commands.shared.project import find_model
from effsparse_cli.formats.output import FORMS
from effsparse_cli.pruning import ALGORITHMS
from effsparse_cli.report.changes import Change

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
    str | None,
    o.choice("--form", help="Write zeros or torch.nn.utils.prune masks", panel=o.WRITE, metavar="FORM", choices=FORMS),
]
KeepInactive = Annotated[
    bool, o.option("--keep-inactive", help="Keep inactive connections, as in the paper.", panel=o.WRITE)
]
Format = Annotated[str, o.format_choice(Change.FORMATS)]


@with_load_arguments
@r.with_ranking_arguments
def prune(
    load_arguments: LoadArguments,
    *,
    model: o.ProjectModel = None,
    target: r.Target = None,
    compression: r.Compression = None,
    direct: Direct = False,
    closest: r.Closest = False,
    allow_disconnected: AllowDisconnected = False,
    algorithm: Algorithm = "bottleneck",
    method: r.Method = "magnitude",
    lsq: r.Lsq = "",
    seed: r.Seed = 0,
    ranking: r.RankingArguments,
    from_masks: FromMasks = False,
    pattern: Pattern = None,
    output: w.Output = None,
    in_place: w.InPlace = False,
    masks_only: w.MasksOnly = False,
    force: w.Force = False,
    form: Form = None,
    keep_inactive: KeepInactive = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
    device: o.Device = "cpu",
) -> None:
    """Prune a model to a target effective sparsity."""
    from effsparse_cli.api.pruning import prune as prune_model

    change = prune_model(
        find_model(model, load_arguments),
        target=target,
        compression=compression,
        direct=direct,
        closest=closest,
        allow_disconnected=allow_disconnected,
        algorithm=algorithm,
        method=method,
        lsq=lsq,
        seed=seed,
        from_masks=from_masks,
        pattern=pattern,
        form=form,
        keep_inactive=keep_inactive,
        output=output,
        in_place=in_place,
        masks_only=masks_only,
        force=force,
        count_embeddings=count_embeddings,
        device=device,
        **ranking.keywords(),
    )
    emit(change.render(format), None)
