"""The format of torch.save, zipped or legacy: a module stored whole, or a checkpoint, read without running any code in
it. Only modules of torch.nn's own classes are complete as data; for others there is --arch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from effsparse_cli.errors import EffsparseError, LoadError, RefusedError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_model_file, check_paths
from effsparse_cli.formats.torch.arch.build import allow_local_imports
from effsparse_cli.formats.torch.arch.scripts import suggest_script
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.damage import damage_on_error
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.restore import ForeignClassError, find_foreign_names, restore
from effsparse_cli.formats.torch.checkpoint.torch_save import (
    PickledFile,
    open_pickled,
    read_tensors,
    select_weights,
)
from effsparse_cli.formats.torch.files.overwrite import find_places, write_overwritten
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange
from effsparse_cli.formats.torch.tracing.limits import remember_file
from effsparse_cli.formats.writing.atomic import Check


@dataclass(frozen=True)
class PickledStorage:
    path: Path
    format: str = "pickled"

    @cached_property
    def opened(self) -> PickledFile:
        """The pickle as data."""
        return open_pickled(self.path)

    @cached_property
    def loaded(self) -> Any:
        """The content as its own code builds it: running this runs the file's code."""
        allow_local_imports()
        try:
            return torch.load(self.path, map_location="cpu", weights_only=False)
        except (Exception, SystemExit) as error:
            raise cannot_load(self.path, error, self._advice()) from error

    def read(self, options: LoadOptions, *, copied: bool, traced: bool = True) -> nn.Module | Checkpoint:
        module = find_module(self.loaded, options.key) if options.trust else None
        return module or read_as_data(self.opened, options, copied=copied, traced=traced)

    def stands_alone(self) -> bool:
        return not isinstance(self.opened.content, Mapping)

    def files_read(self) -> list[Path]:
        return [self.path]

    def check_output(self, output: ModelOutput) -> None:
        check_model_file(self.path, self.format, output)
        check_paths(self.path, output)

    def write_tensors(self, target: Path, changes: Sequence[TensorChange], check: Check | None) -> None:
        """Write a copy of the file, whatever else it holds."""
        places = self.opened.offsets
        if not places:
            write_overwritten(self.path, target, find_places(changes).get(self.path, []), check)
            return
        storages = self.opened.tensors.storages
        starts = {storage.data_ptr(): places[key] for key, storage in storages.items() if key in places}
        write_overwritten(
            self.path, target, [(_in_storage(change.tensor, starts), change) for change in changes], check
        )

    def _advice(self) -> str:
        """Return advice for a file that needs classes of a script; none if it cannot be read as data."""
        try:
            return suggest_script(list(self.opened.global_names), self.opened.sources)
        except EffsparseError:
            return ""


def read_as_data(opened: PickledFile, options: LoadOptions, *, copied: bool, traced: bool) -> nn.Module | Checkpoint:
    """Return the module if all of its classes are known, else tensors. Nothing in the file is run."""
    picked = select_weights(opened, options.key)
    if isinstance(picked.value, Inert) and traced and not options.arch:
        return _restore(opened.copied() if copied else opened, picked.value)
    return read_tensors(opened, options.key)


def find_module(content: Any, key: str) -> nn.Module | None:
    """Return the module in what a file's own code gave, at --key if there is one."""
    for step in key.split(".") if key else ():
        content = content.get(step) if isinstance(content, Mapping) else None
    held = content.values() if isinstance(content, Mapping) else [content]
    return next((each for each in held if isinstance(each, nn.Module)), None)


def _in_storage(tensor: torch.Tensor, starts: Mapping[int, int]) -> int:
    return starts[tensor.untyped_storage().data_ptr()] + int(tensor.storage_offset()) * tensor.element_size()


def _restore(opened: PickledFile, module: Inert) -> nn.Module:
    try:
        with damage_on_error(opened.path):
            made = restore(module, opened.tensors)
            if not isinstance(made, nn.Module):
                raise TypeError(f"expected a module, found a {type(made).__name__}")
            remember_file(made, opened.path)
            return made
    except ForeignClassError as unknown:
        foreign = find_foreign_names(opened.global_names) or [str(unknown)]
        raise RefusedError(_refusal(opened, foreign)) from unknown


WAYS_ON = (
    "If you trust the file, pass --trust to load it and run its code. To read only its weights, pass the model with "
    "--arch NAME or --arch package.module:factory. Or export the model where it was created, with torch.export.save "
    "(.pt2) or to ONNX."
)


def _refusal(opened: PickledFile, foreign: list[str]) -> str:
    path, names = opened.path, f"{', '.join(foreign[:8])}{' ...' if len(foreign) > 8 else ''}"
    if any(name.startswith("__torch__.") for name in foreign):
        return f"{path} is a TorchScript archive, whose graph is code. None of it was run. {WAYS_ON}"
    script = suggest_script(foreign, opened.sources)
    return f"{path} needs code from outside torch.nn: {names}. None of it was run.{script} {WAYS_ON}"


def cannot_load(path: Path, error: BaseException, advice: str = "") -> LoadError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    return LoadError(
        f"{path} cannot be loaded: {reason}. The code of its classes must be importable, for example by running "
        f"in the project that saved it.{advice}"
    )
