"""Files of torch.export.save become traced models. Where torch's own machinery is needed, for ONNX or to do without
in-place operators, it gets a program that was built from the operators that were read, never the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from effsparse_cli.formats.torch.pt2.archive import read_archive
from effsparse_cli.formats.torch.pt2.parse import described_by
from effsparse_cli.formats.torch.pt2.program import read_program
from effsparse_cli.formats.torch.tracing.aliasing import needs_functional_form
from effsparse_cli.formats.torch.tracing.preserve import quiet
from effsparse_cli.formats.torch.tracing.trace import Input, Traced, from_exported
from effsparse_cli.graph.primitives import Shape

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Shapes = Mapping[str, Shape]


def read_exported(path: Path, shapes: Shapes | None = None, to_run: bool = False) -> Traced:
    """At the user's input shapes, or those that the program was exported with. `to_run`: its operators are checked
    and tensors are in memory of their own."""
    traced = read_program(path, shapes, to_run)
    if not needs_functional_form(traced.graph, {n for n, leaf in traced.leaves.items() if isinstance(leaf, Input)}):
        return traced
    with quiet(), described_by(path):
        functional = from_exported(_rebuilt(traced))
    inputs = iter(leaf for leaf in traced.leaves.values() if isinstance(leaf, Input))
    leaves = {n: next(inputs) if isinstance(leaf, Input) else leaf for n, leaf in functional.leaves.items()}
    names = iter(name for name in traced.outputs if name)
    outputs = tuple(next(names) if name else "" for name in functional.outputs)
    return replace(traced, graph=functional.graph, leaves=leaves, outputs=outputs)


def read_stored(path: Path) -> dict[str, torch.Tensor]:
    """The tensors that the program stores, by name."""
    return read_archive(path).stored


def read_for_torch(path: Path, shapes: Shapes | None = None) -> ExportedProgram:
    """A program of torch.export for torch's own tools, of one shape."""
    with described_by(path):
        return _rebuilt(read_program(path, shapes, to_run=True))


def _rebuilt(traced: Traced) -> ExportedProgram:
    from effsparse_cli.formats.torch.pt2.rebuild import to_program

    return to_program(traced)
