"""`effsparse repair`: remove the inactive connections of one model, or mend its mask to meet a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options import writing as w
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.output import ModelOutput
from effsparse_cli.formats.writing.atomic import check_target
from effsparse_cli.report.changes import FORMATS, Change

if TYPE_CHECKING:
    from effsparse_cli.folding.results import RepairResult
    from effsparse_cli.formats.options import LoadOptions

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
Format = Annotated[str, o.format_choice(FORMATS)]


@with_load_arguments
def repair(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    target: r.Target = None,
    compression: r.Compression = None,
    reconnect: Reconnect = False,
    budget_neutral: BudgetNeutral = False,
    dense: Dense = None,
    method: Method = "magnitude",
    lsq: Lsq = "",
    seed: r.Seed = 0,
    only: r.Only = None,
    exclude: r.Exclude = None,
    output: w.Output = None,
    in_place: w.InPlace = False,
    masks_only: w.MasksOnly = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Remove inactive connections without changing the outputs, or mend the mask."""
    from effsparse_cli.commands.shared.project import find_model
    from effsparse_cli.formats import open_model_file

    path, options = find_model(model, load_arguments)
    written = w.build_output(path, output, in_place=in_place, masks_only=masks_only)
    modes = [bool(target or compression), reconnect, budget_neutral]
    if sum(modes) > 1:
        raise UsageError("use only one of --target (or --compression), --reconnect and --budget-neutral.")
    file = open_model_file(path, options, to_change=not any(modes))
    if written is not None:
        file.check_output(written)
        check_target(written.path, "-o", [given for given in (dense, options.masks) if given])
    if any(modes):
        from effsparse_cli.commands.steps import mend

        arguments = mend.MendArguments(
            target=target,
            compression=compression,
            reconnect=reconnect,
            dense=dense,
            method=method,
            lsq=lsq,
            seed=seed,
            only=only,
            exclude=exclude,
            count_embeddings=count_embeddings,
        )
        emit(FORMATS[format](mend.run(file, written, arguments)), None)
        return
    if dense or lsq or only or exclude or masks_only:
        raise UsageError(
            "--dense, --lsq, --only, --exclude and --masks-only are for --target, --reconnect and --budget-neutral. "
            "Without one of these, inactive connections are removed and their constants folded into biases."
        )
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.sizes import settle_file

        file, notes = settle_file(file)
    with progress(f"repairing {path.name}"):
        from effsparse_cli.folding.execute import repair_file

        done, changes = repair_file(file, count_embeddings)
    if written is not None:
        with progress(f"writing {written.path.name}"):
            from effsparse_cli.folding.execute import check_repaired

            file.write(written, changes, lambda new: check_repaired(file.reopen(new), done))
    change = _change(path, written, done, options)
    emit(FORMATS[format](replace(change, notes=(*change.notes, *notes, *file.left_out()))), None)


def _change(path: Path, written: ModelOutput | None, done: RepairResult, options: LoadOptions) -> Change:
    shapes = ", ".join("x".join(map(str, shape)) for shape in done.before.input_shapes.values())
    return Change(
        model=str(path),
        written=str(written.path) if written else None,
        request={"repair": _compared(done, shapes)},
        before=done.before,
        after=done.after,
        notes=tuple(_notes(done, options)),
        look=look(None),
        column="kept",
        details=_details(done),
    )


def _compared(done: RepairResult, shapes: str) -> str:
    if done.partly_run:
        return "some outputs could not be compared"
    return f"max output difference {done.difference:.2g} (largest output {done.scale:.3g}) for inputs of {shapes}"


def _notes(done: RepairResult, options: LoadOptions) -> list[str]:
    carriers = f", {done.folded:,} of them bias carriers, whose constants are now in biases" if done.folded else ""
    notes = [f"{_connections(done.removed)} removed{carriers}"]
    padding = done.before.totals.padding - done.after.totals.padding
    if padding > 0:
        notes.append(f"{padding:,} of them only read padding at this input shape; they may be active at a larger one")
    if done.added:
        notes.append(f"biases added: {', '.join(done.added)}")
    if done.zeroed:
        number = sum(done.zeroed.values())
        notes.append(f"{number:,} biases and norm parameters of unused channels are now zero")
    if options.outputs:
        notes.append(f"outputs other than {', '.join(options.outputs)} may have changed")
    if done.not_run:
        from effsparse_cli.folding.verify import describe_comparison

        notes.append(describe_comparison(done.not_run, done.partly_run))
    return notes + [f"{each.layer} keeps {_connections(each.connections)}: {each.reason}" for each in done.left]


def _connections(number: int) -> str:
    return f"{number:,} inactive connection{'' if number == 1 else 's'}"


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
