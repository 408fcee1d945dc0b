"""A PyTorch file that holds a module or a checkpoint, as a model file. Each format has a Storage in this folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import nn

from effsparse_cli.errors import LoadError, NothingToMeasureError, UsageError
from effsparse_cli.formats.masks.kept import apply
from effsparse_cli.formats.model_file import ModelFile, open_model_file
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_masks_only
from effsparse_cli.formats.torch import from_module, lower_live, shape_text, trace_live
from effsparse_cli.formats.torch.apply_masks import FORMS, new_weights
from effsparse_cli.formats.torch.arch import attach
from effsparse_cli.formats.torch.arch.build import BuiltModel
from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from effsparse_cli.formats.torch.arch.match import fit_to_model
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange, find_changes, write_prune_form
from effsparse_cli.formats.torch.inputs import Inputs, example_inputs, open_axes
from effsparse_cli.formats.torch.tracing.trace import TracedModel, stored_tensors
from effsparse_cli.formats.writing.atomic import Check, replacing
from effsparse_cli.graph.graph import Graph, OpenDimensions
from effsparse_cli.graph.primitives import CallPath, Shape

if TYPE_CHECKING:
    from effsparse_cli.formats.output import Changes

Content = nn.Module | Checkpoint


class Storage(Protocol):
    """How a format stores a module or tensors. It opens its file once."""

    @property
    def format(self) -> str: ...

    def read(self, options: LoadOptions, *, copied: bool, traced: bool = True) -> Content:
        """Return the module that is stored whole, its tensors `copied`, else the tensors, which do unless `traced`."""

    def stands_alone(self) -> bool:
        """Return whether the module or state_dict is all that the file holds."""

    def files_read(self) -> list[Path]: ...

    def check_output(self, output: ModelOutput) -> None: ...

    def write_tensors(self, target: Path, changes: Sequence[TensorChange], check: Check | None) -> None:
        """Write a copy of the file with changed tensors."""


@dataclass
class _Opened:
    """The content read so far, shared by all views of one file."""

    content: Content | None = None
    module: nn.Module | None = None
    fitted: tuple[BuiltModel, Checkpoint] | None = None
    shapes: Mapping[str, Shape] | None = None
    traced: tuple[Inputs, TracedModel] | None = None


@dataclass(frozen=True, eq=False)
class TorchFile:
    path: Path
    options: LoadOptions
    storage: Storage
    to_change: bool = False
    _opened: _Opened = field(default_factory=_Opened, repr=False)
    executable: Literal["module"] = "module"

    @property
    def format(self) -> str:
        return self.storage.format

    @property
    def holds_module(self) -> bool:
        """Whether the file stores a module whole, and the options do not name another architecture."""
        return isinstance(self._content(), nn.Module)

    def _content(self) -> Content:
        if self._opened.content is None:
            self._opened.content = self._read(copied=self.to_change)
        return self._opened.content

    def _read(self, *, copied: bool, traced: bool = True) -> Content:
        if self.options.arch_args and not self.options.arch and self.format != "folder":
            raise UsageError("--arch-arg requires --arch")
        found = self.storage.read(self.options, copied=copied, traced=traced)
        if isinstance(found, nn.Module) and self.options.arch:
            return Checkpoint(stored_tensors(found))
        return found

    def traced_module(self) -> nn.Module:
        """Return the module that the file holds, as `trace` and `graph` use it."""
        content = self._content()
        assert isinstance(content, nn.Module)
        module: nn.Module = getattr(content, "_orig_mod", content)
        return module

    def trace(self) -> tuple[Inputs, TracedModel]:
        """Return example inputs of the module that the file holds, and its trace."""
        opened, model = self._opened, self.traced_module()
        if opened.traced is None or opened.shapes != self.options.input_shapes:
            inputs = example_inputs(model, self.options)
            opened.traced = inputs, trace_live(model, inputs.args, inputs.kwargs)
            opened.shapes = self.options.input_shapes
        return opened.traced

    def graph(self) -> Graph:
        content = self._content()
        if isinstance(content, Checkpoint):
            return apply(self._graph_of_tensors(content), self.options)
        inputs, traced = self.trace()
        graph = lower_live(traced, self.traced_module(), self.options, inputs.notes)
        return apply(replace(graph, open_dimensions=inputs.open), self.options)

    def _graph_of_tensors(self, raw: Checkpoint) -> Graph:
        built, fitted = self._fit(raw)
        options, shapes, notes = self.options, self.options.input_shapes, list(fitted.notes)
        if not shapes:
            shapes = dict(built.shapes)
            notes += [f"input shape {shape_text(shape)}, the usual one for this model" for shape in shapes.values()]
            notes += built.notes
        try:
            at_shapes = replace(options, input_shapes=shapes)
            graph = attach.to_graph(built.module, fitted, lambda module: from_module(module, (), None, at_shapes))
        except UsageError as error:
            if options.input_shapes or options.arch:
                raise
            raise LoadError(str(error)) from error
        opened = graph.open_dimensions if options.input_shapes or not built.shapes else _open_tokens(shapes)
        return replace(graph.with_notes(after=notes), open_dimensions=opened)

    def _fit(self, raw: Checkpoint) -> tuple[BuiltModel, Checkpoint]:
        self._opened.fitted = fit_to_model(self.path, raw, self.options)
        return self._opened.fitted

    def weights(self) -> Graph:
        found = self._read(copied=False, traced=False)
        raw = Checkpoint(stored_tensors(found)) if isinstance(found, nn.Module) else found
        tensors = resolve(raw, external_masks=self.options.masks is not None)
        layers = {name: attach.lazy_layer(tensors, name) for name in tensors.tensors if _may_be_weight(tensors, name)}
        if not layers:
            raise NothingToMeasureError(
                f"{self.path} contains no weight: no floating-point tensor with two or more dimensions"
            )
        return apply(Graph((), (), layers, note_sources=tuple(tensors.notes)), self.options)

    def module(self) -> nn.Module:
        """Return the live module that is stored whole, or that --arch gives, to be changed or written."""
        if self._opened.module is None:
            content = self._content()
            if isinstance(content, Checkpoint):
                built, fitted = self._fit(content)
                self._opened.module = attach.attach(built.module, fitted)
            elif self.to_change:
                self._opened.module = content
            else:
                copied = self._read(copied=True)
                assert isinstance(copied, nn.Module)
                self._opened.module = copied
        return self._opened.module

    def module_options(self) -> LoadOptions:
        """Return the options to trace `module()` with: a known architecture has its usual input shapes."""
        shapes = self.options.input_shapes
        if not shapes and self._opened.fitted is not None:
            shapes = dict(self._opened.fitted[0].shapes)
        return replace(self.options, input_shapes=shapes)

    def has_open_dimensions(self) -> bool:
        if self.options.input_shapes:
            return False
        content = self._content()
        if isinstance(content, nn.Module):
            return example_inputs(self.traced_module(), self.options).open is not None
        return self.options.arch not in BUILT_IN

    def with_options(self, **changes: Any) -> TorchFile:
        return replace(self, options=replace(self.options, **changes))

    def reopen(self, path: Path) -> ModelFile:
        key = "" if self.holds_module else self.options.key
        options = replace(self.options, key=key, masks=None, zero_tol=0.0, zeros_are_pruned=False)
        return open_model_file(path, options)

    def files_read(self) -> list[Path]:
        return self.storage.files_read()

    def check_output(self, output: ModelOutput) -> None:
        if output.masks_only:
            check_masks_only(self.path, output)
        else:
            self.storage.check_output(output)

    def viewer_nodes(self, calls: Iterable[CallPath]) -> None:
        return None

    def left_out(self) -> list[str]:
        if self.holds_module and not self.storage.stands_alone():
            return ["only the module is written, without the other contents of the file"]
        return []

    def write(self, output: ModelOutput, changes: Changes, check: Check | None = None) -> None:
        content = self._content()
        if isinstance(content, nn.Module):
            self._write_module(output, changes, check)
            return
        if self.options.trust and self.options.arch:
            # Tensors created by the file's own code cannot be located in the file.
            content = self.storage.read(replace(self.options, trust=False), copied=False, traced=False)
            assert isinstance(content, Checkpoint)
            self._opened.fitted = None
        built, fitted = self._opened.fitted or self._fit(content)
        new = {**changes.tensors, **new_weights({**stored_tensors(built.module), **fitted.tensors}, changes.weights)}
        found = find_changes(self.path, content, (built.module, fitted), changes.kept, new)
        if output.form == "prune":
            write_prune_form(self.path, output.path, found, self.options.key)
        else:
            self.storage.write_tensors(output.path, found, check)

    def _write_module(self, output: ModelOutput, changes: Changes, check: Check | None) -> None:
        # Other contents of the file cannot be written without running its code, so do not lose them.
        if output.path.exists() and output.path.samefile(self.path) and not self.storage.stands_alone():
            raise UsageError(
                f"{self.path} contains more than its module, but only the module can be written. Write to another "
                "file with -o"
            )
        model = self.module()
        stored = stored_tensors(model)
        with torch.no_grad():
            for name, tensor in new_weights(stored, changes.weights).items():
                stored[name].copy_(tensor)
        if changes.kept:
            FORMS[output.form](model, changes.kept)
        write_module(output.path, model, check)


def write_module(target: Path, model: nn.Module, check: Check | None = None) -> None:
    """Save a module whole."""
    # Given a path, torch.save would write its name into the archive: that of a temporary file here.
    with replacing(target, check) as temporary, temporary.open("wb") as file:
        torch.save(model, file)


def _open_tokens(shapes: Mapping[str, Shape]) -> OpenDimensions | None:
    """Return the open sizes of a model with usual shapes: only the number of tokens is arbitrary."""
    return open_axes(shapes, {name: (1,) for name, shape in shapes.items() if name.endswith("ids") and len(shape) == 2})


def _may_be_weight(checkpoint: Checkpoint, name: str) -> bool:
    tensor = checkpoint.tensors[name]
    return tensor.ndim > 1 and (tensor.is_floating_point() or tensor.is_quantized or name in checkpoint.values)
