"""The safetensors format: tensors by name. The header, its metadata and its order are kept when tensors change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_model_file, check_paths, check_zeros_only
from effsparse_cli.formats.torch.arch.match import rename_tensors
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors
from effsparse_cli.formats.torch.files.overwrite import find_places, write_overwritten
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange
from effsparse_cli.formats.writing.atomic import Check


@dataclass(frozen=True)
class SafetensorsStorage:
    path: Path
    format: str = "safetensors"

    def read(self, options: LoadOptions, *, copied: bool, traced: bool = True) -> Checkpoint:
        return _below(self.path, Checkpoint(read_safetensors(self.path)), options.key)

    def stands_alone(self) -> bool:
        return True

    def files_read(self) -> list[Path]:
        return [self.path]

    def check_output(self, output: ModelOutput) -> None:
        check_zeros_only(self.path, output)
        check_model_file(self.path, self.format, output)
        check_paths(self.path, output)

    def write_tensors(self, target: Path, changes: Sequence[TensorChange], check: Check | None) -> None:
        write_overwritten(self.path, target, find_places(changes).get(self.path, []), check)


def _below(path: Path, found: Checkpoint, key: str) -> Checkpoint:
    """Apply --key to a file that has no dictionaries: keep the names that start with it."""
    if not key:
        return found
    names = {name: name.removeprefix(f"{key}.") for name in found.tensors if name.startswith(f"{key}.")}
    if not names:
        raise UsageError(
            f"--key {key}: no name in {path} starts with '{key}.'. Its names include "
            f"{', '.join(list(found.tensors)[:6])}"
        )
    return rename_tensors(found, names)
