"""A model in, the same model without the positions that nothing needs out."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import ModelProto

from effsparse_cli.compaction.onnx.rewriting.constants import fold_constants
from effsparse_cli.compaction.onnx.rewriting.shared import share, unshare
from effsparse_cli.compaction.onnx.rewriting.slice_model import rewrite
from effsparse_cli.compaction.onnx.rewriting.standard_form import standard_opset
from effsparse_cli.compaction.onnx.rewriting.zero_branches import drop_zero_branches
from effsparse_cli.compaction.onnx.run import WHOLE, Feeds, observe
from effsparse_cli.compaction.onnx.survey import Survey, survey
from effsparse_cli.compaction.solve import Kept, solve
from effsparse_cli.folding.onnx.unknown import Apart


@dataclass(frozen=True, eq=False)
class Smaller:
    """`model` is the smaller one; `kept` says which positions of the surveyed values stay."""

    model: ModelProto
    survey: Survey
    kept: Kept


def cut(model: ModelProto, feeds: Feeds, rewired: bool = True, block: int = 1, apart: Apart = WHOLE) -> Smaller:
    """`model` is in plain form; `feeds` are inputs of the shapes that count, and what operators that cannot be run
    (`apart`) are taken to give. Where the graph may be `rewired`, branches that always give zero are dropped whole and
    equal vectors that several operators share come apart. Convolutions in groups keep multiples of `block` groups."""
    whole = ModelProto()
    whole.CopyFrom(model)
    copies = unshare(whole) if rewired else {}
    shapes = {name: array.shape for name, array in feeds.items() if name not in apart.writes}
    seen = {**feeds, **observe(whole, feeds, apart)}
    found = survey(whole, shapes, seen)
    while rewired and drop_zero_branches(whole, found.values):
        found = survey(whole, shapes, seen)
    kept = solve(found.facts, block)
    small = rewrite(whole, found.values, kept)
    share(small, copies)
    fold_constants(small, found.values, standard_opset(small))
    return Smaller(small, found, kept)
