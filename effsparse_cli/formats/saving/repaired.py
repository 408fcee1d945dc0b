"""A repaired model into a file of its own format: only what changed is new, and it appears whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli.formats.saving.atomic import Check, replacing
from effsparse_cli.formats.saving.pruned import Target

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from onnx import ModelProto
    from torch import nn

    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.primitives import Bools

Masks = Mapping[str, "Bools"]
Values = Mapping[str, "NDArray[Any]"]


def write_whole_module(target: Path, model: nn.Module, check: Check | None = None) -> None:
    import torch

    # Given a path, torch.save would write its name into the archive: that of a temporary file here.
    with replacing(target, check) as temporary, temporary.open("wb") as file:
        torch.save(model, file)


def write_program_tensors(target: Target, new: Mapping[str, torch.Tensor], check: Check | None = None) -> None:
    """`new` by stored name."""
    from effsparse_cli.formats.saving.exported import write_stored

    write_stored(target.source, target.file, {name: tensor.contiguous().cpu() for name, tensor in new.items()}, check)


def write_state(
    target: Target,
    masks: Masks,
    new: Mapping[str, torch.Tensor],
    options: LoadOptions,
    check: Check | None = None,
) -> None:
    """A file of tensors: `masks` by layer, `new` values by the model's name for the tensor."""
    from effsparse_cli.formats.saving import tensors

    writers = {"folder": tensors.write_folder, "safetensors": tensors.write_safetensors}
    writers.get(target.kind, tensors.write_state_dict)(target.source, target.file, masks, options, new, check)


def write_onnx_tensors(
    target: Target,
    new: Mapping[str, Any],
    change: Callable[[ModelProto], None] | None = None,
    check: Check | None = None,
) -> None:
    from effsparse_cli.formats.saving.onnx import write_tensors

    if target.file.exists() and target.file.samefile(target.source):
        with replacing(target.file) as temporary:
            write_tensors(target.source, temporary, new, change, check)
    else:
        write_tensors(target.source, target.file, new, change, check)


def write_revived(
    target: Target, masks: Masks, values: Values, options: LoadOptions, check: Check | None = None
) -> None:
    """`masks` by layer, and weights where others are to stand than the file has."""
    match target.kind:
        case "onnx":
            _write_revived_onnx(target, masks, values, options, check)
        case "exported":
            from effsparse_cli.formats.saving.torch import changed_tensors
            from effsparse_cli.formats.torch.exported import read_stored

            stored = read_stored(target.source)
            write_program_tensors(target, changed_tensors({**stored, **_as_tensors(stored, values)}, masks), check)
        case _:
            _write_revived_torch(target, masks, values, options, check)


def _write_revived_torch(
    target: Target, masks: Masks, values: Values, options: LoadOptions, check: Check | None
) -> None:
    import torch
    from torch import nn

    from effsparse_cli.formats.saving.torch import check_alone, zero_weights
    from effsparse_cli.formats.torch.pickled import read_content, read_module
    from effsparse_cli.formats.torch.tracing.trace import stored_tensors

    model = read_module(target.source, options)
    stored = stored_tensors(model)
    new = _as_tensors(stored, values)
    if not isinstance(read_content(target.source, options), nn.Module):
        write_state(target, masks, new, options, check)
        return
    check_alone(target.source, target.file)
    with torch.no_grad():
        for name, tensor in new.items():
            stored[name].copy_(tensor)
    zero_weights(model, masks)
    write_whole_module(target.file, model, check)


def _as_tensors(stored: Mapping[str, torch.Tensor], values: Values) -> dict[str, torch.Tensor]:
    """By stored name, of the type that is stored."""
    import torch

    from effsparse_cli.formats.saving.torch import find_tensors

    names = find_tensors(stored, values)
    return {name: torch.from_numpy(values[layer].copy()).to(stored[name].dtype) for layer, name in names.items()}


def _write_revived_onnx(
    target: Target, masks: Masks, values: Values, options: LoadOptions, check: Check | None
) -> None:
    from effsparse_cli.formats.saving.onnx import write_onnx

    if target.file.exists() and target.file.samefile(target.source):
        with replacing(target.file) as temporary:
            write_onnx(target.source, temporary, masks, options, values, check)
    else:
        write_onnx(target.source, target.file, masks, options, values, check)
