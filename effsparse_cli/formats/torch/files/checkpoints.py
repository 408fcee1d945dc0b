"""The formats of tensors without code: safetensors, where the header, its metadata and its order are kept when tensors
change, and Hugging Face folders of config.json and weights, which are written as new folders of copies."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import SUFFIXES, ModelOutput, check_model_file, check_paths, check_zeros_only
from effsparse_cli.formats.torch.arch.match import rename_tensors
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.folder import CONFIG, PREPARATION, check_inside, read_folder, weight_files
from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange, find_places, overwrite, write_overwritten
from effsparse_cli.formats.writing.atomic import Check, check_outputs, new_folder


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


@dataclass(frozen=True)
class FolderStorage:
    path: Path
    format: str = "folder"

    def read(self, options: LoadOptions, *, copied: bool, traced: bool = True) -> Checkpoint:
        return read_folder(self.path, options)

    def stands_alone(self) -> bool:
        return True

    def files_read(self) -> list[Path]:
        configs = [self.path / name for name in (CONFIG, PREPARATION)]
        return [file for file in configs if file.exists()] + weight_files(self.path)

    def check_output(self, output: ModelOutput) -> None:
        check_zeros_only(self.path, output)
        if output.in_place:
            raise UsageError(f"{self.path} is a folder and cannot be changed in place: use -o with a new folder")
        named = f"{output.option} {output.path}"
        if output.path.suffix in (".npz", *(suffix for known in SUFFIXES.values() for suffix in known)):
            raise UsageError(f"{named}: {self.path} is a folder, so the output must be a folder too")
        if output.path.exists():
            raise UsageError(f"{named} already exists. Choose a new folder.")
        if output.path.resolve().is_relative_to(self.path.resolve()):
            raise UsageError(f"{named} is inside the input folder. Choose a path outside it.")
        check_outputs({output.option: output.path}, [self.path])

    def write_tensors(self, target: Path, changes: Sequence[TensorChange], check: Check | None) -> None:
        """Write a new folder. Links become the files that they lead to, so that it is complete on its own."""
        placed = find_places(changes)
        for file in self.path.rglob("*"):
            check_inside(self.path, str(file.relative_to(self.path)))
        with new_folder(target, check) as copy:
            shutil.copytree(self.path, copy)
            for file, some in placed.items():
                overwrite(copy / file.relative_to(self.path), some)
            copy.chmod(self.path.stat().st_mode & 0o777)
