"""Open a model file. `open_model_file` detects the format once and returns the object that all later work goes
through: it gives the graph, the live module and the tensors, and writes changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from effsparse_cli.formats.architectures import find_arch
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import sniff

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.formats.output import Changes, ModelOutput
    from effsparse_cli.formats.writing.atomic import Check
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.graph.primitives import CallPath, ViewerNode

Executable = Literal["onnx", "program", "module"]
"""How a model is represented in memory: an ONNX model, a traced program, or a live module."""


class ModelFile(Protocol):
    """One model file. Nothing is parsed before it is needed, and nothing is parsed twice."""

    @property
    def path(self) -> Path: ...

    @property
    def options(self) -> LoadOptions: ...

    @property
    def format(self) -> str:
        """The format's name in FORMATS."""

    @property
    def executable(self) -> Executable: ...

    def graph(self) -> Graph:
        """Return the graph at the options' input shapes, with the options' masks applied."""

    def weights(self) -> Graph:
        """Return the tensors of a file without a graph, as layers that nothing connects."""

    def module(self) -> nn.Module:
        """Return the live module, with its own copy of the tensors."""

    def has_open_dimensions(self) -> bool:
        """Return whether the model may leave input sizes open that the options do not fix."""

    def with_options(self, **changes: Any) -> ModelFile:
        """Return the same opened file with some options changed: input shapes, or what counts as kept."""

    def reopen(self, path: Path) -> ModelFile:
        """Open a file that `write` has written. Masks that the options name are applied in it already."""

    def files_read(self) -> list[Path]: ...

    def check_output(self, output: ModelOutput) -> None:
        """Raise UsageError if the model cannot be written there or in that form. Called before any work is done."""

    def left_out(self) -> list[str]:
        """Return notes on what `write` leaves out of the file."""

    def viewer_nodes(self, calls: Iterable[CallPath]) -> Mapping[CallPath, ViewerNode] | None:
        """Return how Model Explorer names these op calls, where it shows them; None if it cannot show this format."""

    def write(self, output: ModelOutput, changes: Changes, check: Check | None = None) -> None:
        """Write the model with the changes, in its own format. `check` reads the file before it gets its name."""


Opener = Callable[[Path, LoadOptions, bool], ModelFile]


def open_model_file(path: Path, options: LoadOptions | None = None, *, to_change: bool = False) -> ModelFile:
    """Open a file. With `to_change`, tensors are read into memory of their own, to be changed or run there."""
    options = options or LoadOptions()
    options = replace(options, arch=find_arch(options.arch))
    return FORMATS[sniff(path)](path, options, to_change)


def _open_onnx(path: Path, options: LoadOptions, to_change: bool) -> ModelFile:
    from effsparse_cli.formats.onnx.model_file import OnnxFile

    return OnnxFile(path, options)


def _open_exported(path: Path, options: LoadOptions, to_change: bool) -> ModelFile:
    from effsparse_cli.formats.torch.files.exported import ExportedFile

    return ExportedFile(path, options, to_change)


def _open_torch(storage: str) -> Opener:
    """Return a function that opens a container of torch tensors; `storage` is its class in torch/files."""
    module, _, name = storage.partition(".")

    def open_file(path: Path, options: LoadOptions, to_change: bool) -> ModelFile:
        from effsparse_cli.formats.torch.files.torch_file import TorchFile

        storages = import_module(f"effsparse_cli.formats.torch.files.{module}")
        return TorchFile(path, options, getattr(storages, name)(path), to_change)

    return open_file


FORMATS: dict[str, Opener] = {
    "onnx": _open_onnx,
    "exported": _open_exported,
    "pickled": _open_torch("pickled.PickledStorage"),
    "script": _open_torch("pickled.ScriptStorage"),
    "safetensors": _open_torch("checkpoints.SafetensorsStorage"),
    "folder": _open_torch("checkpoints.FolderStorage"),
}
"""By the format that `sniff` detects. Each function imports the libraries that its format needs."""
