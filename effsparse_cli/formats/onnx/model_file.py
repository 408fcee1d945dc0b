"""ONNX as a model file: parsed once with large tensors mapped, lowered once per input shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from onnx import ModelProto

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.kept import apply
from effsparse_cli.formats.onnx.external import data_files
from effsparse_cli.formats.onnx.model import build, has_open_dimensions
from effsparse_cli.formats.onnx.outline import fill_in
from effsparse_cli.formats.onnx.parse import open_model, read_model
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.onnx.viewer_nodes import name_nodes
from effsparse_cli.formats.onnx.write import write_changes
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import ModelOutput, check_masks_only, check_model_file, check_paths, check_zeros_only
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import CallPath, Shape, ViewerNode

if TYPE_CHECKING:
    from effsparse_cli.formats.output import Changes
    from effsparse_cli.formats.writing.atomic import Check


@dataclass
class _Opened:
    """The parsed and lowered model, shared by all views of one file."""

    model: ModelProto | None = None
    shapes: Mapping[str, Shape] | None = None
    lowered: tuple[Graph, Store] | None = None


@dataclass(frozen=True, eq=False)
class OnnxFile:
    path: Path
    options: LoadOptions
    _opened: _Opened = field(default_factory=_Opened, repr=False)
    format: str = "onnx"
    executable: Literal["onnx"] = "onnx"

    def model(self) -> ModelProto:
        """Return the parsed file. Large tensors are external data in the file itself; it must not be changed."""
        if self._opened.model is None:
            if self.options.arch or self.options.key:
                raise UsageError(f"{self.path} is an ONNX model, which has its own graph: remove --arch and --key")
            self._opened.model = open_model(self.path, mapped=True)
        return self._opened.model

    def whole_model(self) -> ModelProto:
        """Return a copy of the model with its data in memory, to change or to run."""
        return fill_in(self.model(), self.path)

    def lowered(self) -> tuple[Graph, Store]:
        """Return the graph as the file has it, and the store that reads its tensors."""
        opened, shapes = self._opened, self.options.input_shapes
        if opened.lowered is None or opened.shapes != shapes:
            opened.lowered, opened.shapes = build(self.model(), self.path, self.options), shapes
        return opened.lowered

    def graph(self) -> Graph:
        return apply(self.lowered()[0], self.options)

    def weights(self) -> NoReturn:
        raise UsageError(
            f"{self.path} has a graph, so its effective sparsity can be measured too: remove --direct-only"
        )

    def module(self) -> NoReturn:
        raise UsageError(f"{self.path} is an ONNX model, which contains no PyTorch module")

    def has_open_dimensions(self) -> bool:
        return has_open_dimensions(self.model(), self.options)

    def with_options(self, **changes: Any) -> OnnxFile:
        return replace(self, options=replace(self.options, **changes))

    def reopen(self, path: Path) -> OnnxFile:
        return OnnxFile(path, replace(self.options, masks=None, zero_tol=0.0, zeros_are_pruned=False))

    def files_read(self) -> list[Path]:
        return [self.path, *data_files(self.model(), self.path)]

    def check_output(self, output: ModelOutput) -> None:
        if output.masks_only:
            check_masks_only(self.path, output)
            return
        check_zeros_only(self.path, output)
        check_model_file(self.path, self.format, output)
        if output.in_place and data_files(self.model(), self.path):
            raise UsageError(f"{self.path} stores its weights as external data: write to another file with -o")
        check_paths(self.path, output)

    def write(self, output: ModelOutput, changes: Changes, check: Check | None = None) -> None:
        graph, store = self.lowered() if changes.kept or changes.weights else (None, None)
        write_changes(
            # Annotations change nothing else, not even the order of nodes in a file that is not sorted.
            model=read_model(self.path, mapped=True) if changes.metadata else self.model(),
            source=self.path,
            output=output,
            changes=changes,
            layers=graph.layers if graph else {},
            store=store,
            check=check or self._check_zeros(changes, store),
        )

    def left_out(self) -> list[str]:
        return []

    def viewer_nodes(self, calls: Iterable[CallPath]) -> dict[CallPath, ViewerNode]:
        known = name_nodes(self.model())
        return {call: known[call] for call in calls if call in known}

    def _check_zeros(self, changes: Changes, store: Store | None) -> Check | None:
        """Return a check that pruned weights read as zero, if some are computed from stored tensors.

        A stored zero may not be zero where the weight is used: some quantizers cannot represent it.
        """
        computed = [
            name for name in changes.kept if store and (found := store.under(name)) is not None and found.altered
        ]
        if not computed:
            return None

        def check(path: Path) -> None:
            layers = self.reopen(path).lowered()[0].layers
            wrong = [name for name in computed if (layers[name].kept() & ~changes.kept[name]).any()]
            if wrong:
                raise UsageError(
                    f"{', '.join(wrong[:5])}: stored values are transformed before use and a zero does not stay zero, "
                    "so these weights cannot be pruned. Exclude them with --exclude"
                )

        return check
