"""`effsparse compact`: one model in, a smaller one that computes the same out, and what that brought."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from effsparse_cli.commands import options as o
from effsparse_cli.commands import ranking as r
from effsparse_cli.commands.output import emit, look
from effsparse_cli.commands.progress import progress
from effsparse_cli.commands.reading import Reading, reads
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.saving.atomic import check_outputs
from effsparse_cli.report.compaction import FORMATS
from effsparse_cli.report.compaction.page import CompactionPage

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import Compaction
    from effsparse_cli.formats.options import LoadOptions

EXAMPLES = """\
Examples:

effsparse compact pruned.onnx -o small.onnx

effsparse compact pruned.pt -o small.pt --input-shape 1,3,32,32

effsparse compact pruned.pt2 -o small.onnx
"""

WRITE = "What is written"
ONNX, MODULE = ".onnx", (".pt", ".pth", ".bin", ".ckpt")
Output = Annotated[
    Path | None,
    o.option(
        "--output", "-o", help="Write the smaller model to this file: .onnx, or .pt.", panel=WRITE, metavar="FILE"
    ),
]
Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]


@reads
def compact(
    reading: Reading,
    model: r.Model = None,
    output: Output = None,
    format: Format = "table",
) -> None:
    """Cut out channels and neurons that nothing uses: a smaller dense model with the same outputs."""
    from effsparse_cli.commands.project import find_model

    file, options = find_model(model, reading)
    _check(file, output)
    with progress(f"reading {file.name}"):
        from effsparse_cli.analysis.opening import settled_options

        options, notes = settled_options(file, options)
    if output is not None and output.suffix in MODULE:
        done = _to_module(file, output, options)
    else:
        done = _to_onnx(file, output, options)
    done = replace(done, notes=(*notes, *done.notes))
    emit(FORMATS[format](CompactionPage(str(file), str(output) if output else None, done, look(None))), None)


def _check(file: Path, output: Path | None) -> None:
    """Where to write, looked at before any work is done."""
    from effsparse_cli.formats.sniff import kind

    source = kind(file)
    if output is None:
        return
    if output.suffix not in (ONNX, *MODULE):
        raise UsageError(f"-o {output}: smaller models are written as .onnx, or as .pt, by suffix.")
    if output.suffix in MODULE and source != "pickled":
        raise UsageError(
            f"-o {output}: only a module of torch.save can be written as one again, and {file} is none. Name the "
            "output .onnx"
        )
    check_outputs({"-o": output}, [file])


def _to_onnx(file: Path, output: Path | None, options: LoadOptions) -> Compaction:
    from effsparse_cli.compaction.execute import compact_to_onnx
    from effsparse_cli.compaction.written import check_onnx
    from effsparse_cli.formats.saving.compacted import write_model

    with progress(f"compacting {file.name}"):
        small, done = compact_to_onnx(file, options)
    if output is not None:
        with progress(f"writing {output.name}"):
            write_model(output, small, partial(check_onnx, done=done))
    return done


def _to_module(file: Path, output: Path, options: LoadOptions) -> Compaction:
    from effsparse_cli.compaction.execute import compact_to_module
    from effsparse_cli.compaction.written import check_module
    from effsparse_cli.formats.saving.repaired import write_whole_module

    with progress(f"compacting {file.name}"):
        small, done = compact_to_module(file, options)
    with progress(f"writing {output.name}"):
        write_whole_module(output, small, partial(check_module, options=options, model=small))
    return done
