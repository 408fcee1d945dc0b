"""Which form a pruned model can be written in, asked before any work is done, and the writing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli import files
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.saving.atomic import check_outputs, replacing
from effsparse_cli.formats.saving.masks import check_suffix

if TYPE_CHECKING:
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.primitives import Bools

FORMS = ("zeros", "prune")
SUFFIXES = {
    "onnx": (".onnx",),
    "exported": (".pt2",),
    "pickled": (".pt", ".pth", ".bin", ".ckpt"),
    "safetensors": (".safetensors",),
}


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
        check_outputs({option: target.file}, [target.source])
        return
    if target.form == "prune" and target.kind != "pickled":
        raise UsageError(
            f"--form prune is for modules and state_dicts of torch.save, and {target.source} is no such file. Its own "
            "format with zeroed weights (without --form), or --masks-only, can be written"
        )
    if target.kind == "script":
        raise UsageError(f"{target.source} is a TorchScript archive, which cannot be written. Use --masks-only")
    if target.kind == "folder":
        _check_folder(target, option, in_place)
        return
    owners = [kind for kind, suffixes in SUFFIXES.items() if target.file.suffix in suffixes]
    if target.file.suffix == ".npz" or (target.file.suffix == ".safetensors" and target.kind != "safetensors"):
        raise UsageError(f"{option} {target.file}: masks alone go to such a file, with --masks-only")
    if owners and target.kind not in owners:
        raise UsageError(
            f"{option} {target.file}: a model is written in the format it was read in, and {target.source} is of "
            f"another. Name the output {' or '.join(SUFFIXES[target.kind][:2])}"
        )
    if in_place and target.kind == "onnx" and _is_split(target.source):
        raise UsageError(f"{target.source} keeps its weights in files beside it: write to another file with -o")
    if in_place:
        files.allow_replacing(target.source)
    check_outputs({option: target.file}, [] if in_place else [target.source])


def write_pruned(target: Target, masks: Mapping[str, Bools], options: LoadOptions) -> None:
    if target.kind == "onnx":
        from effsparse_cli.formats.saving.onnx import write_onnx

        if target.file.exists() and target.file.samefile(target.source):
            with replacing(target.file) as temporary:
                write_onnx(target.source, temporary, masks, options)
        else:
            write_onnx(target.source, target.file, masks, options)
    elif target.kind == "exported":
        from effsparse_cli.formats.saving.exported import write_program

        write_program(target.source, target.file, masks)
    elif target.kind == "folder":
        from effsparse_cli.formats.saving.tensors import write_folder

        write_folder(target.source, target.file, masks, options)
    elif target.kind == "safetensors":
        from effsparse_cli.formats.saving.tensors import write_safetensors

        write_safetensors(target.source, target.file, masks, options)
    else:
        _write_pickled(target, masks, options)


def _write_pickled(target: Target, masks: Mapping[str, Bools], options: LoadOptions) -> None:
    """A module is saved anew; of a file of tensors, which may hold much else, only those change."""
    from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
    from effsparse_cli.formats.torch.pickled import read_content

    if not isinstance(read_content(target.source, options), Checkpoint):
        from effsparse_cli.formats.saving.torch import write_module

        write_module(target.source, target.file, masks, options, target.form)
    elif target.form == "prune":
        from effsparse_cli.formats.saving.reparametrized import write_with_masks

        write_with_masks(target.source, target.file, masks, options)
    else:
        from effsparse_cli.formats.saving.tensors import write_state_dict

        write_state_dict(target.source, target.file, masks, options)


def _check_folder(target: Target, option: str, in_place: bool) -> None:
    if in_place:
        raise UsageError(f"{target.source} is a folder, and is not written over: name a new one with -o")
    if target.file.suffix in (".npz", *(suffix for known in SUFFIXES.values() for suffix in known)):
        raise UsageError(
            f"{option} {target.file}: {target.source} is a folder, and so is what is written: name a folder"
        )
    if target.file.exists():
        raise UsageError(f"{option} {target.file} is there already. The pruned folder is a new one: name another.")
    if target.file.resolve().is_relative_to(target.source.resolve()):
        raise UsageError(f"{option} {target.file} lies in the folder that is read. Name a place outside of it.")
    check_outputs({option: target.file}, [target.source])


def _is_split(source: Path) -> bool:
    from effsparse_cli.formats.onnx.external import is_external
    from effsparse_cli.formats.onnx.file import open_model
    from effsparse_cli.formats.onnx.tensors.keys import tensors

    return any(is_external(tensor) for _, tensor, _ in tensors(open_model(source)) if hasattr(tensor, "data_location"))
