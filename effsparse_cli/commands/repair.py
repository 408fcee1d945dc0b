"""`effsparse repair`: remove the inactive connections of one model, or mend its mask to meet a target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from effsparse_cli.api.models import FileToOpen
from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options import writing as w
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.commands.shared.project import find_model
from effsparse_cli.report.changes import Change

EXAMPLES = """\
Examples:
effsparse repair model.pt -o repaired.pt
effsparse repair model.onnx --in-place
effsparse repair pruned.pt --target 0.99 --dense dense.pt -o mended.pt
effsparse repair pruned.pt --budget-neutral --masks-only -o masks.safetensors
"""

MEND = "Mending"
Reconnect = Annotated[
    bool, o.option("--reconnect", help="Restore collapsed layers with as few connections as possible.", panel=MEND)
]
BudgetNeutral = Annotated[
    bool, o.option("--budget-neutral", help="Keep the number of connections, but make all of them active.", panel=MEND)
]
Dense = Annotated[
    Path | None,
    o.option("--dense", help="Unpruned model, for the values of revived weights.", panel=MEND, metavar="FILE"),
]
Method = Annotated[str, r.method_choice("Score to rank connections by, highest kept or revived first", r.WITHOUT_DATA)]
Lsq = Annotated[str, r.lsq_option("Layerwise quota", metavar="QUOTA", default="global")]
Format = Annotated[str, o.format_choice(Change.FORMATS)]


@with_load_arguments
def repair(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    target: r.Target = None,
    compression: r.Compression = None,
    reconnect: Reconnect = False,
    budget_neutral: BudgetNeutral = False,
    closest: r.Closest = False,
    dense: Dense = None,
    method: Method = "magnitude",
    lsq: Lsq = "",
    seed: r.Seed = 0,
    only: r.Only = None,
    exclude: r.Exclude = None,
    output: w.Output = None,
    in_place: w.InPlace = False,
    masks_only: w.MasksOnly = False,
    force: w.Force = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Remove inactive connections without changing the outputs, or mend the mask."""
    from effsparse_cli.api.repairing import repair as repair_model

    file = find_model(model, load_arguments)
    change = repair_model(
        file,
        target=target,
        compression=compression,
        reconnect=reconnect,
        budget_neutral=budget_neutral,
        closest=closest,
        dense=None if dense is None else FileToOpen(dense, file.options),
        method=method,
        lsq=lsq,
        seed=seed,
        only=split_names(only),
        exclude=split_names(exclude),
        output=output,
        in_place=in_place,
        masks_only=masks_only,
        force=force,
        count_embeddings=count_embeddings,
    )
    emit(change.render(format), None)
