"""The TorchScript format. Its tensors are read as data; with --trust its code runs, and it can be traced like a module.
It cannot be written."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_zeros_only
from effsparse_cli.formats.torch.arch.build import allow_local_imports
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.torch_save import PickledFile, open_pickled
from effsparse_cli.formats.torch.files.pickled import cannot_load, read_as_data
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange
from effsparse_cli.formats.torch.tracing.preserve import quiet
from effsparse_cli.formats.writing.atomic import Check


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
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                argument.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if argument.has_default_value() else inspect.Parameter.empty,
            )
            for argument in given
        ]
    )
    module.forward = forward
    return module.eval()


def _inside(module: nn.Module, path: str) -> nn.Module:
    for name in path.split(".") if path else ():
        if name not in module._modules:
            module.add_module(name, nn.Module())
        module = module.get_submodule(name)
    return module
