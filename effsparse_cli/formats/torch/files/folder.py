"""The Hugging Face folder format: config.json and weights, written as a new folder of copies."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import SUFFIXES, ModelOutput, check_zeros_only
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.folder import CONFIG, PREPARATION, check_inside, read_folder, weight_files
from effsparse_cli.formats.torch.files.overwrite import find_places, overwrite
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange
from effsparse_cli.formats.writing.atomic import Check, check_outputs, new_folder


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
