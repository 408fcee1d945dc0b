"""The formats of torch.save, zipped or legacy, and of TorchScript: a module stored whole, or a checkpoint, read without
running any code in it. Only modules of torch.nn's own classes are complete as data; for others there is --arch. With
--trust the code of the file runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from effsparse_cli.errors import EffsparseError, LoadError, RefusedError, UsageError, first_line
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_model_file, check_paths, check_zeros_only
from effsparse_cli.formats.torch.arch.build import suggest_script
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint, damage_on_error
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.restore import ForeignClassError, find_foreign_names, restore
from effsparse_cli.formats.torch.checkpoint.torch_save import PickledFile, open_pickled, read_tensors, select_weights
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange, find_places, write_overwritten
from effsparse_cli.formats.torch.tracing.preserve import quiet, remember_file
from effsparse_cli.formats.writing.atomic import Check
from effsparse_cli.imports import allow_local_imports


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
        offsets, storages = self.opened.offsets, self.opened.tensors.storages
        if offsets:
            starts = {storage.data_ptr(): offsets[key] for key, storage in storages.items() if key in offsets}
            placed = [(_in_storage(change.tensor, starts), change) for change in changes]
        else:
            placed = find_places(changes).get(self.path, [])
        write_overwritten(self.path, target, placed, check)

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
    return LoadError(
        f"{path} cannot be loaded: {first_line(error)}. The code of its classes must be importable, for example by "
        f"running in the project that saved it.{advice}"
    )


@dataclass(frozen=True)
class ScriptStorage:
    path: Path
    format: str = "script"

    @cached_property
    def opened(self) -> PickledFile:
        return open_pickled(self.path)

    @cached_property
    def loaded(self) -> nn.Module:
        """The script as a module: running this runs code that is in the file."""
        allow_local_imports()
        try:
            with quiet():
                script: Any = torch.jit.load(self.path, map_location="cpu")  # type: ignore[no-untyped-call]
            return _mirror(script.eval())
        except (Exception, SystemExit) as error:
            raise cannot_load(self.path, error) from error

    def read(self, options: LoadOptions, *, copied: bool, traced: bool = True) -> nn.Module | Checkpoint:
        return self.loaded if options.trust else read_as_data(self.opened, options, copied=copied, traced=traced)

    def stands_alone(self) -> bool:
        return True

    def files_read(self) -> list[Path]:
        return [self.path]

    def check_output(self, output: ModelOutput) -> None:
        check_zeros_only(self.path, output)
        raise UsageError(f"{self.path} is a TorchScript archive, which cannot be written. Use --masks-only")

    def write_tensors(self, target: Path, changes: Sequence[TensorChange], check: Check | None) -> NoReturn:
        raise UsageError(f"{self.path} is a TorchScript archive, which cannot be written. Use --masks-only")


def _mirror(script: Any) -> nn.Module:
    """Wrap a script in a plain module, which has the hooks and the signature that tracing needs."""
    module = nn.Module()
    # A script's parameters are plain tensors, and the ones it computes with must be these very objects.
    for name, tensor in (*script.named_parameters(), *script.named_buffers()):
        path, _, own = name.rpartition(".")
        _inside(module, path).register_buffer(own, tensor)

    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_exporting():
            # A script knows its own tensors only, not those that an export puts in their place; a run is recorded.
            raise RuntimeError("TorchScript cannot be exported")
        return script(*args, **kwargs)

    given = [argument for argument in script.forward.schema.arguments if argument.name != "self"]
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(a.name, kind, default=None if a.has_default_value() else empty) for a in given]
    )
    module.forward = forward
    return module.eval()


def _inside(module: nn.Module, path: str) -> nn.Module:
    for name in path.split(".") if path else ():
        if name not in module._modules:
            module.add_module(name, nn.Module())
        module = module.get_submodule(name)
    return module
