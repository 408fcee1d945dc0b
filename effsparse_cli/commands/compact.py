"""`effsparse compact`: remove dead channels and neurons, and write a smaller model with the same outputs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeGuard

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.shared.output import emit, look
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.report.compaction import FORMATS, CompactionPage

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import CompactResult
    from effsparse_cli.formats import ModelFile

EXAMPLES = """\
Examples:

effsparse compact pruned.onnx -o small.onnx

effsparse compact pruned.pt -o small.pt --input-shape 1,3,32,32

effsparse compact pruned.pt2 -o small.onnx
"""

ONNX, MODULE = ".onnx", (".pt", ".pth", ".bin", ".ckpt")
Output = Annotated[
    Path | None, o.option("--output", "-o", help="Write the new model, as .onnx or .pt.", panel=o.WRITE, metavar="FILE")
]
Format = Annotated[str, o.format_choice(FORMATS)]


@with_load_arguments
def compact(
    load_arguments: LoadArguments,
    model: o.ProjectModel = None,
    output: Output = None,
    format: Format = "table",
) -> None:
    """Remove dead channels and neurons: a smaller model with the same outputs."""
    from effsparse_cli.commands.shared.project import find_model
    from effsparse_cli.formats import open_model_file

    path, options = find_model(model, load_arguments)
    file = open_model_file(path, options, to_change=True)
    _check(file, output)
    with progress(f"reading {path.name}"):
        from effsparse_cli.analysis.sizes import settle_file

        file, notes = settle_file(file)
    done = _compact_to_module(file, output) if _is_module(output) else _compact_to_onnx(file, output)
    done = replace(done, notes=(*notes, *done.notes))
    emit(FORMATS[format](CompactionPage(str(path), str(output) if output else None, done, look(None))), None)


def _is_module(output: Path | None) -> TypeGuard[Path]:
    return output is not None and output.suffix in MODULE


def _check(file: ModelFile, output: Path | None) -> None:
    """Check the output before any work is done."""
    if output is None:
        return
    if output.suffix not in (ONNX, *MODULE):
        raise UsageError(f"-o {output}: unknown suffix; use .onnx or .pt.")
    if output.suffix in MODULE and file.format != "pickled":
        raise UsageError(
            f"-o {output}: only a module saved with torch.save can be written as .pt, and {file.path} is not one. "
            "Use .onnx."
        )
    check_outputs({"-o": output}, [file.path])


def _compact_to_onnx(file: ModelFile, output: Path | None) -> CompactResult:
    from effsparse_cli.compaction.execute import check_onnx, compact_to_onnx
    from effsparse_cli.formats.onnx.save import write_model

    with progress(f"compacting {file.path.name}"):
        small, done = compact_to_onnx(file)
    if output is not None:
        with progress(f"writing {output.name}"):
            write_model(output, small, partial(check_onnx, done=done))
    return done


def _compact_to_module(file: ModelFile, output: Path) -> CompactResult:
    from effsparse_cli.compaction.execute import check_module, compact_to_module
    from effsparse_cli.formats.torch.files.torch_file import write_module

    with progress(f"compacting {file.path.name}"):
        small, done = compact_to_module(file)
    with progress(f"writing {output.name}"):
        write_module(output, small, lambda path: check_module(file.reopen(path), small))
    return done
