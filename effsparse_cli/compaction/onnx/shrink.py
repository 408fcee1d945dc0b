"""Removes the positions that nothing needs from an ONNX model."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from onnx import ModelProto

from effsparse_cli.compaction.onnx.rewiring import (
    copy_shared_vectors,
    drop_zero_branches,
    merge_equal_copies,
    replace_constants,
)
from effsparse_cli.compaction.onnx.run import ALL_RUNNABLE, Feeds, observe
from effsparse_cli.compaction.onnx.slicing import slice_model
from effsparse_cli.compaction.onnx.standard_form import standard_opset
from effsparse_cli.compaction.onnx.survey import Survey, survey
from effsparse_cli.compaction.solve import Kept, solve
from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators


@dataclass(frozen=True, eq=False)
class ShrunkModel:
    """The smaller model, and which positions of the surveyed values are kept."""

    model: ModelProto
    survey: Survey
    kept: Kept


def shrink(
    model: ModelProto,
    feeds: Feeds,
    may_rewire: bool = True,
    block: int = 1,
    unrunnable: UnrunnableOperators = ALL_RUNNABLE,
) -> ShrunkModel:
    """Return a smaller copy of a model in standard form.

    `feeds` are inputs of the shapes that count, and assumed results of operators that cannot be run (`unrunnable`).
    With `may_rewire`, branches that are always zero are dropped, and vectors that several operators share because they
    are equal are copied first. Grouped convolutions keep multiples of `block` groups.
    """
    whole = deepcopy(model)
    copies = copy_shared_vectors(whole) if may_rewire else {}
    shapes = {name: array.shape for name, array in feeds.items() if name not in unrunnable.results}
    seen = {**feeds, **observe(whole, feeds, unrunnable)}
    found = survey(whole, shapes, seen)
    while may_rewire and drop_zero_branches(whole, found.values):
        found = survey(whole, shapes, seen)
    kept = solve(found.facts, block)
    small = slice_model(whole, found.values, kept)
    merge_equal_copies(small, copies)
    replace_constants(small, found.values, standard_opset(small))
    return ShrunkModel(small, found, kept)
