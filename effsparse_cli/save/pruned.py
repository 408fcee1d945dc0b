"""Which form a pruned model can be written in, asked before any work is done, and the writing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.errors import UsageError
from effsparse_cli.save.atomic import check_target, replacing
from effsparse_cli.save.masks import check_suffix, write_masks

if TYPE_CHECKING:
    from effsparse_cli.graph.primitives import Bools
    from effsparse_cli.load.options import LoadOptions

FORMS = ("zeros", "prune")
SUFFIXES = {"onnx": (".onnx",), "exported": (".pt2",), "pickled": (".pt", ".pth", ".bin", ".ckpt")}


@dataclass(frozen=True)
class Target:
    """`kind` is that of the source, as it was sniffed."""

    source: Path
    file: Path
    kind: str
    form: str = "zeros"
    masks_only: bool = False


def check_form(target: Target, in_place: bool) -> None:
    option = "--in-place" if in_place else "-o"
    if target.masks_only:
        if in_place or target.form != FORMS[0]:
            raise UsageError("--masks-only writes masks and no model: leave --in-place and --form away")
        check_suffix(target.file, option)
        check_target(target.file, option, [target.source])
        return
    if target.form == "prune" and target.kind != "pickled":
        raise UsageError(
            f"--form prune is for modules of torch.save, and {target.source} is no such file. Its own format with "
            "zeroed weights (without --form), or --masks-only, can be written"
        )
    owners = [kind for kind, suffixes in SUFFIXES.items() if target.file.suffix in suffixes]
    if target.file.suffix in (".safetensors", ".npz"):
        raise UsageError(f"{option} {target.file}: masks alone go to such a file, with --masks-only")
    if owners and target.kind not in owners:
        raise UsageError(
            f"{option} {target.file}: a model is written in the format it was read in, and {target.source} is of "
            f"another. Name the output {' or '.join(SUFFIXES[target.kind][:2])}"
        )
    if in_place and target.kind == "onnx" and _is_split(target.source):
        raise UsageError(f"{target.source} keeps its weights in files beside it: write to another file with -o")
    check_target(target.file, option, [] if in_place else [target.source])


def write_pruned(target: Target, masks: Mapping[str, Bools], options: LoadOptions) -> None:
    if target.masks_only:
        write_masks(masks, target.file)
    elif target.kind == "onnx":
        from effsparse_cli.save.onnx import write_onnx

        if target.file.exists() and target.file.samefile(target.source):
            with replacing(target.file) as temporary:
                write_onnx(target.source, temporary, masks, options)
        else:
            write_onnx(target.source, target.file, masks, options)
    elif target.kind == "exported":
        from effsparse_cli.save.exported import write_program

        write_program(target.source, target.file, masks)
    else:
        from effsparse_cli.save.torch import write_module

        write_module(target.source, target.file, masks, options, target.form)


def _is_split(source: Path) -> bool:
    from effsparse_cli.load.onnx.external import is_external
    from effsparse_cli.load.onnx.file import open_model
    from effsparse_cli.load.onnx.names import tensors

    return any(is_external(tensor) for _, tensor, _ in tensors(open_model(source)) if hasattr(tensor, "data_location"))
