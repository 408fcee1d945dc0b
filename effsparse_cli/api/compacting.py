"""`compact`: a smaller model with the same outputs."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from effsparse_cli.api.models import LiveModel, LoadKeywords, Model, open_model
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.model_file import ModelFile
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.progress import step

if TYPE_CHECKING:
    from effsparse_cli.report.compaction import Compaction

ONNX, MODULE = ".onnx", (".pt", ".pth", ".bin", ".ckpt")


def compact(
    model: Model,
    example_input: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    **load: Unpack[LoadKeywords],
) -> Compaction:
    """Remove dead channels and neurons: a smaller model with the same outputs. The model itself is not changed.

    For a live module, the result's `module` is the smaller copy, with ordinary dense parameters; create a new optimizer
    for them. For a file, the smaller model is written to `output`, as .onnx or .pt. Inactive connections are removed
    first, as in `repair`. Both models are run on random inputs; outputs that differ by more than rounding raise an
    error, as does a module whose code contains tensor sizes. Requires onnxscript, which torch's ONNX exporter uses.

    Examples:
        >>> small = effsparse.compact(model, x).module
    """
    file = open_model(model, example_input, load, to_change=True)
    if isinstance(file, LiveModel):
        if output is not None:
            raise UsageError("a live module is compacted in memory: save the result's module instead of --output.")
        return _compact_module(file)
    path = None if output is None else Path(output)
    if path is not None:
        _check_output(file, path, force)
    with step(f"reading {file.path.name}"):
        from effsparse_cli.analysis.sizes import settle_file

        file, notes = settle_file(file)
    done = _to_module(file, path) if path is not None and path.suffix in MODULE else _to_onnx(file, path)
    return replace(done, model=str(file.path), written=str(path) if path else None, notes=(*notes, *done.notes))


def _compact_module(source: LiveModel) -> Compaction:
    from effsparse_cli.compaction.torch.execute import compact_module
    from effsparse_cli.report.compaction import Compaction

    args, kwargs = source.arguments()
    with step("compacting"):
        small, done = compact_module(source.module, args, kwargs, source.options)
    return Compaction.of(done, model=source.name, module=small)


def _check_output(file: ModelFile, output: Path, force: bool) -> None:
    """Check the output before any work is done."""
    if output.suffix not in (ONNX, *MODULE):
        raise UsageError(f"-o {output}: unknown suffix; use .onnx or .pt.")
    if output.suffix in MODULE and file.format != "pickled":
        raise UsageError(
            f"-o {output}: only a module saved with torch.save can be written as .pt, and {file.path} is not one. "
            "Use .onnx."
        )
    check_outputs({"-o": output}, [file.path], force=force)


def _to_onnx(file: ModelFile, output: Path | None) -> Compaction:
    from effsparse_cli.compaction.execute import check_onnx, compact_to_onnx
    from effsparse_cli.formats.onnx.save import write_model
    from effsparse_cli.report.compaction import Compaction

    with step(f"compacting {file.path.name}"):
        small, done = compact_to_onnx(file)
    if output is not None:
        with step(f"writing {output.name}"):
            write_model(output, small, partial(check_onnx, done=done))
    return Compaction.of(done, onnx_model=small)


def _to_module(file: ModelFile, output: Path) -> Compaction:
    from effsparse_cli.compaction.execute import check_module, compact_to_module
    from effsparse_cli.formats.torch.files.torch_file import write_module
    from effsparse_cli.report.compaction import Compaction

    with step(f"compacting {file.path.name}"):
        small, done = compact_to_module(file)
    with step(f"writing {output.name}"):
        write_module(output, small, lambda path: check_module(file.reopen(path), small))
    return Compaction.of(done, module=small)
