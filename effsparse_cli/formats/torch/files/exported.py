"""Exported programs (torch.export.save) as a model file: the archive is parsed once, nothing in it is run, and changed
weights are written where they lie in a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.kept import apply
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_masks_only, check_model_file, check_paths, check_zeros_only
from effsparse_cli.formats.torch.apply_masks import changed_tensors, new_weights
from effsparse_cli.formats.torch.checkpoint.content import EXPORT_AGAIN, damage_on_error
from effsparse_cli.formats.torch.files.tensor_changes import TensorChange, write_overwritten
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.pt2.archive import ProgramContent, read_archive
from effsparse_cli.formats.torch.pt2.program import read_program
from effsparse_cli.formats.torch.tracing.aliasing import needs_functional_form
from effsparse_cli.formats.torch.tracing.preserve import quiet
from effsparse_cli.formats.torch.tracing.trace import Input, TracedModel, from_exported
from effsparse_cli.formats.writing.atomic import Check
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import CallPath, Shape, ViewerNode

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from effsparse_cli.formats.output import Changes


@dataclass
class _Opened:
    """The content read so far, shared by all views of one file."""

    content: ProgramContent | None = None
    shapes: Mapping[str, Shape] | None = None
    traced: TracedModel | None = None


@dataclass(frozen=True, eq=False)
class ExportedFile:
    path: Path
    options: LoadOptions
    to_change: bool = False
    _opened: _Opened = field(default_factory=_Opened, repr=False)
    format: str = "exported"
    executable: Literal["program"] = "program"

    def content(self) -> ProgramContent:
        """Return the parsed archive; with `to_change` its tensors are in memory of their own."""
        if self._opened.content is None:
            self._opened.content = read_archive(self.path, copied=self.to_change)
        return self._opened.content

    def traced(self) -> TracedModel:
        """Return the program at the options' input shapes or its own. With `to_change` it is checked and may be run."""
        opened, shapes = self._opened, self.options.input_shapes
        if opened.traced is None or opened.shapes != shapes:
            program = read_program(self.content(), self.path, shapes, self.to_change)
            opened.traced, opened.shapes = _in_functional_form(program, self.path), shapes
        return opened.traced

    def for_torch(self) -> ExportedProgram:
        """Return a program of torch.export for torch's own tools, built from the checked operators."""
        with damage_on_error(self.path, EXPORT_AGAIN):
            return _rebuilt(read_program(self.content(), self.path, self.options.input_shapes, to_run=True))

    def graph(self) -> Graph:
        if self.options.arch:
            raise UsageError(f"{self.path} is an exported program, which has its own graph: remove --arch")
        traced = self.traced()
        with damage_on_error(self.path, EXPORT_AGAIN):
            graph = lower_traced(traced, self.options)
        return apply(replace(graph, open_dimensions=None if self.options.input_shapes else traced.open), self.options)

    def weights(self) -> NoReturn:
        raise UsageError(
            f"{self.path} has a graph, so its effective sparsity can be measured too: remove --direct-only"
        )

    def module(self) -> NoReturn:
        raise UsageError(f"{self.path} is an exported program, which contains no module")

    def has_open_dimensions(self) -> bool:
        return not self.options.input_shapes and self.traced().open is not None

    def with_options(self, **changes: Any) -> ExportedFile:
        return replace(self, options=replace(self.options, **changes))

    def reopen(self, path: Path) -> ExportedFile:
        options = replace(self.options, masks=None, zero_tol=0.0, zeros_are_pruned=False)
        return ExportedFile(path, options, to_change=self.to_change)

    def files_read(self) -> list[Path]:
        return [self.path]

    def check_output(self, output: ModelOutput) -> None:
        if output.masks_only:
            check_masks_only(self.path, output)
            return
        check_zeros_only(self.path, output)
        check_model_file(self.path, self.format, output)
        check_paths(self.path, output)

    def viewer_nodes(self, calls: Iterable[CallPath]) -> dict[CallPath, ViewerNode]:
        """Name op calls like Model Explorer's PyTorch adapter: subgraphs are part of the op call that runs them."""
        return {call: ("graph", call[0]) for call in calls if call}

    def left_out(self) -> list[str]:
        return []

    def write(self, output: ModelOutput, changes: Changes, check: Check | None = None) -> None:
        stored = self.content().stored
        new = changed_tensors({**stored, **new_weights(stored, changes.weights)}, changes.kept)
        new |= {name: tensor.contiguous().cpu() for name, tensor in changes.tensors.items()}
        offsets = self.content().offsets
        missing = next((name for name in new if name not in offsets), None)
        if missing is not None:
            raise UsageError(
                f"{self.path} was written by an older torch and stores {missing} in a form that cannot be overwritten. "
                "Export it again, or use --masks-only"
            )
        whole = {name: torch.ones(tensor.shape, dtype=torch.bool) for name, tensor in new.items() if tensor.numel()}
        placed = [(offsets[n], TensorChange(n, stored[n], kept, values=new[n])) for n, kept in whole.items()]
        write_overwritten(self.path, output.path, placed, check)


def _in_functional_form(traced: TracedModel, path: Path) -> TracedModel:
    """Return the program without in-place operators, if it has any that matter."""
    if not needs_functional_form(traced.graph, {n for n, leaf in traced.leaves.items() if isinstance(leaf, Input)}):
        return traced
    with quiet(), damage_on_error(path, EXPORT_AGAIN):
        functional = from_exported(_rebuilt(traced))
    inputs = iter(leaf for leaf in traced.leaves.values() if isinstance(leaf, Input))
    leaves = {n: next(inputs) if isinstance(leaf, Input) else leaf for n, leaf in functional.leaves.items()}
    names = iter(name for name in traced.outputs if name)
    outputs = tuple(next(names) if name else "" for name in functional.outputs)
    return replace(traced, graph=functional.graph, leaves=leaves, outputs=outputs)


def _rebuilt(traced: TracedModel) -> ExportedProgram:
    from effsparse_cli.formats.torch.pt2.rebuild import to_program

    return to_program(traced)
