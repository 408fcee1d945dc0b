"""What is written to a model file: changes, place and form, and the checks that run before any work is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli import files
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.formats.writing.masks import check_suffix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from effsparse_cli.graph.primitives import Bools, CallPath


@dataclass(frozen=True, eq=False)
class NewBias:
    """A bias for an ONNX operator that has none.

    `output` is the name of the value to add the bias to, `values` has one element per channel. `instead` names the
    shared bias input that it replaces, if any.
    """

    output: str
    name: str
    values: NDArray[Any]
    instead: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """The differences between the model that was read and the one to write.

    `kept` holds masks by layer, in the layer's shape; pruned weights are written as zero. `weights` holds new values
    by layer. `tensors` holds new values of other stored tensors, by the model's name for them: arrays for ONNX,
    `torch.Tensor` otherwise. Whatever is not named stays as it is. `metadata` holds the annotations of an ONNX model by
    op call, those of the model itself by the empty path; they replace all earlier ones.
    """

    kept: Mapping[str, Bools] = field(default_factory=dict)
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tensors: Mapping[str, Any] = field(default_factory=dict)
    biases: tuple[NewBias, ...] = ()
    metadata: Mapping[CallPath, Mapping[str, str]] = field(default_factory=dict)


FORMS = ("zeros", "prune")
SUFFIXES = {
    "onnx": (".onnx",),
    "exported": (".pt2",),
    "pickled": (".pt", ".pth", ".bin", ".ckpt"),
    "safetensors": (".safetensors",),
}


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """A model file to write. `form` is one of FORMS; with `masks_only` the masks are written and no model. `force`
    allows it to replace another model."""

    path: Path
    in_place: bool = False
    form: str = FORMS[0]
    masks_only: bool = False
    force: bool = False

    @property
    def option(self) -> str:
        return "--in-place" if self.in_place else "-o"


def check_masks_only(source: Path, output: ModelOutput) -> None:
    """Check an output for masks without a model, which every format supports."""
    if output.in_place or output.form != FORMS[0]:
        raise UsageError("--masks-only writes no model: remove --in-place and --form")
    check_suffix(output.path, output.option)
    check_outputs({output.option: output.path}, [source], force=output.force)


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
    check_outputs(
        {output.option: output.path}, [] if output.in_place else [source], force=output.force or output.in_place
    )
