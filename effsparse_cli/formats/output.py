"""Where and in which form a changed model is written, and the checks that need nothing but names. They run before any
work is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from effsparse_cli import files
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.formats.writing.masks import check_suffix

FORMS = ("zeros", "prune")
SUFFIXES = {
    "onnx": (".onnx",),
    "exported": (".pt2",),
    "pickled": (".pt", ".pth", ".bin", ".ckpt"),
    "safetensors": (".safetensors",),
}


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """A model file to write. `form` is one of FORMS; with `masks_only` the masks are written and no model."""

    path: Path
    in_place: bool = False
    form: str = FORMS[0]
    masks_only: bool = False

    @property
    def option(self) -> str:
        return "--in-place" if self.in_place else "-o"


def check_masks_only(source: Path, output: ModelOutput) -> None:
    """Check an output for masks without a model, which every format supports."""
    if output.in_place or output.form != FORMS[0]:
        raise UsageError("--masks-only writes no model: remove --in-place and --form")
    check_suffix(output.path, output.option)
    check_outputs({output.option: output.path}, [source])


def check_zeros_only(source: Path, output: ModelOutput) -> None:
    """Refuse `--form prune` for formats that have no room for masks."""
    if output.form == "prune":
        raise UsageError(
            f"--form prune requires a module or state_dict saved with torch.save, and {source} is neither. Remove "
            "--form to write zeros, or use --masks-only"
        )


def check_model_file(source: Path, format: str, output: ModelOutput) -> None:
    """Check an output that is a single file of the source's own format."""
    suffix = output.path.suffix
    owners = [name for name, suffixes in SUFFIXES.items() if suffix in suffixes]
    if suffix == ".npz" or (suffix == ".safetensors" and format != "safetensors"):
        raise UsageError(f"{output.option} {output.path}: this format is for masks only; add --masks-only")
    if owners and format not in owners:
        raise UsageError(
            f"{output.option} {output.path}: the output must have the format of {source}. Use the suffix "
            f"{' or '.join(SUFFIXES[format][:2])}"
        )


def check_paths(source: Path, output: ModelOutput) -> None:
    """Check that the output can be written and is not read, unless it is written in place."""
    if output.in_place:
        files.allow_replacing(source)
    check_outputs({output.option: output.path}, [] if output.in_place else [source])
