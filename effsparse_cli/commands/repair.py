"""`effsparse repair`: one model in, the same model without its dead connections out; or, where a target is named, one
whose mask means what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import ranking as r
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.output import ModelOutput
from effsparse_cli.formats.writing.atomic import check_target
from effsparse_cli.report.changes import FORMATS
from effsparse_cli.report.changes.page import Change

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

WRITE, MEND = "What is written", "How the mask is mended"
Reconnect = Annotated[
    bool,
    o.option("--reconnect", help="Only restore collapsed layers, with the fewest connections.", panel=MEND),
]
BudgetNeutral = Annotated[
    bool, o.option("--budget-neutral", help="As many connections as before, all of them active.", panel=MEND)
]
Dense = Annotated[
    Path | None,
    o.option("--dense", help="The model before it was pruned: values for what is revived.", panel=MEND, metavar="FILE"),
]
Sparsity = Annotated[
    str | None,
    o.option("--target", help="Effective sparsity to bring it to, from either side.", panel=MEND, metavar="0.99"),
]
Compression = Annotated[
    str | None, o.option("--compression", help="The same as a compression.", panel=MEND, metavar="100")
]
Method = Annotated[
    str,
    o.choice(
        "--method", help="What is high stays or comes first", panel=r.RANK, metavar="METHOD", choices=r.WITHOUT_DATA
    ),
]
Lsq = Annotated[
    str,
    o.option(
        "--lsq",
        help=f"Layerwise quota: {', '.join(r.QUOTAS)}, or from:METHOD; global by default.",
        panel=r.RANK,
        metavar="QUOTA",
    ),
]
Only = Annotated[
    list[str] | None,
    o.option("--only", help="Change only layers with such names (* and ?).", panel=r.RANK, metavar="PATTERN"),
]
Exclude = Annotated[
    list[str] | None,
    o.option("--exclude", help="Leave layers with such names as they are (* and ?).", panel=r.RANK, metavar="PATTERN"),
]
Seed = Annotated[int, o.option("--seed", help="Of --method random, and where nothing has values.", panel=r.RANK)]
Output = Annotated[
    Path | None, o.option("--output", "-o", help="Write the repaired model to this file.", panel=WRITE, metavar="FILE")
]
InPlace = Annotated[bool, o.option("--in-place", help="Write it over the model's own file.", panel=WRITE)]
MasksOnly = Annotated[
    bool, o.option("--masks-only", help="Write only the masks, as .safetensors or .npz.", panel=WRITE)
]
Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]


@with_load_arguments
def repair(
    load_arguments: LoadArguments,
    model: r.Model = None,
    target: Sparsity = None,
    compression: Compression = None,
    reconnect: Reconnect = False,
    budget_neutral: BudgetNeutral = False,
    dense: Dense = None,
    method: Method = "magnitude",
    lsq: Lsq = "",
    seed: Seed = 0,
    only: Only = None,
    exclude: Exclude = None,
    output: Output = None,
    in_place: InPlace = False,
    masks_only: MasksOnly = False,
    format: Format = "table",
    count_embeddings: o.CountEmbeddings = False,
) -> None:
    """Remove connections that do nothing, and keep what the model computes; or mend its mask."""
    from effsparse_cli.commands.shared.project import find_model
    from effsparse_cli.formats import open_model_file

    path, options = find_model(model, load_arguments)
    written = _output(path, output, in_place, masks_only)
    ways = [bool(target or compression), reconnect, budget_neutral]
    if sum(ways) > 1:
        raise UsageError("--target (or --compression), --reconnect and --budget-neutral are three ways: choose one.")
    file = open_model_file(path, options, to_change=not any(ways))
    if written is not None:
        file.check_output(written)
        check_target(written.path, "-o", [given for given in (dense, options.masks) if given])
    if any(ways):
        from effsparse_cli.commands.steps import mend

        asked = mend.Asked(target, compression, reconnect, dense, method, lsq, seed, only, exclude, count_embeddings)
        emit(FORMATS[format](mend.run(file, written, asked)), None)
        return
    if dense or lsq or only or exclude or masks_only:
        raise UsageError(
            "--dense, --lsq, --only, --exclude and --masks-only are for --target, --reconnect and --budget-neutral: "
            "without one of these, connections that do nothing are removed, and biases take up what they carried."
        )
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.opening import settle_file

        file, notes = settle_file(file)
    with progress(f"repairing {path.name}"):
        from effsparse_cli.folding.execute import repair_file

        done, changes = repair_file(file, count_embeddings)
    if written is not None:
        with progress(f"writing {written.path.name}"):
            from effsparse_cli.folding.written import check_repaired

            file.write(written, changes, lambda new: check_repaired(file.reopen(new), done))
    change = _change(path, written, done, options)
    emit(FORMATS[format](replace(change, notes=(*change.notes, *notes, *file.left_out()))), None)


def _output(path: Path, output: Path | None, in_place: bool, masks_only: bool) -> ModelOutput | None:
    if in_place and output is not None:
        raise UsageError("--in-place and -o both say where to write: choose one.")
    if output is None and not in_place:
        if masks_only:
            raise UsageError("--masks-only says what is written, and nothing is: name a file with -o.")
        return None
    return ModelOutput(path=output or path, in_place=in_place, masks_only=masks_only)


def _change(path: Path, written: ModelOutput | None, done: RepairResult, options: LoadOptions) -> Change:
    shapes = ", ".join("x".join(map(str, shape)) for shape in done.before.input_shapes.values())
    return Change(
        model=str(path),
        written=str(written.path) if written else None,
        asked={"repair": _compared(done, shapes)},
        before=done.before,
        after=done.after,
        notes=tuple(_notes(done, options)),
        look=look(None),
        column="kept",
        details=_details(done),
    )


def _compared(done: RepairResult, shapes: str) -> str:
    if done.partly_run:
        return "outputs could not all be compared"
    return f"outputs for inputs of {shapes} differ by {done.difference:.2g} (largest {done.scale:.3g})"


def _notes(done: RepairResult, options: LoadOptions) -> list[str]:
    carried = f", {done.folded:,} of which carried a constant: biases have it now" if done.folded else ""
    notes = [f"{_connections(done.removed)} removed{carried}"]
    padding = done.before.totals.padding - done.after.totals.padding
    if padding > 0:
        notes.append(f"{padding:,} of them only ever read padding at this input shape; at a larger one they might work")
    if done.added:
        notes.append(f"biases added: {', '.join(done.added)}")
    if done.zeroed:
        number = sum(done.zeroed.values())
        notes.append(f"{number:,} biases and norm parameters of channels that nothing reads are zero now")
    if options.outputs:
        notes.append(f"other outputs than {', '.join(options.outputs)} may have changed")
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
