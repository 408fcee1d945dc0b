"""A pass over packed bits, written down: the rules run once on registers instead of values, and what they ask for
becomes a list of instructions that the kernel can go through again and again. A graph enters, a program leaves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Contract, Scan, Shape, Weight
from effsparse_cli.kernel import compiled
from effsparse_cli.paths.packing import Sheets, Tight, lay_out
from effsparse_cli.paths.recorder import Call, Meeting, Recorder, Register
from effsparse_cli.paths.scans import flow_of
from effsparse_cli.paths.sweep import Sweep
from effsparse_cli.paths.views import covers_once

AXES = 32
"""That a value may have: as many as numpy's arrays had for long."""


@dataclass(frozen=True, eq=False)
class Program:
    """`compiled` is what the kernel made of it, `tight` says how its sheets lie in memory, `order` in which they are
    best read. `plain` are the layers that one meeting tells all about: the outputs of the operator, and which meeting
    it is. `live` has the register of each node, -1 for none; `ways` says of each contraction what it takes to find its
    geometry."""

    sheets: Sheets
    tight: Tight
    order: bytes
    calls: Sequence[Call]
    uses: Sequence[tuple[Weight, Shape, list[Meeting]]]
    plain: Sequence[tuple[str, int, int, int]]
    live: Sequence[int]
    ways: Sequence[tuple[Contract, Shape]]
    compiled: object = field(repr=False)


def program_of(graph: Graph) -> Program | None:
    """None where what happens depends on what is found, as in a loop that goes on until nothing changes, and where an
    axis is empty or there are more axes than the kernel has room for. It is found once: nothing in it depends on what
    weights keep."""
    if "program" not in graph.cache:
        graph.cache["program"] = _record(graph)
    found: Program | None = graph.cache["program"]
    return found


def _record(graph: Graph) -> Program | None:
    if any(isinstance(node.op, Scan) or 0 in node.shape or len(node.shape) > AXES for node in graph.nodes):
        return None
    sheets = lay_out(graph.weight_shapes, graph.operands)
    recorder = Recorder(sheets)
    done: Sweep[Register, list[Meeting]] = Sweep(recorder, recorder, graph)
    live = [-1 if value is None else flow_of(value).live.number for value in done.values]
    uses = [(weight, graph.weight_shapes[weight], meetings) for weight, meetings in done.uses.items()]
    program, late = recorder.compile()
    tight = Tight(*compiled.room(program), partial(compiled.loose, program))
    order = sheets.order(graph.operands, late)
    return Program(sheets, tight, order, recorder.calls, uses, _plain(uses, graph), live, recorder.ways, program)


def _plain(uses: Sequence[tuple[Weight, Shape, list[Meeting]]], graph: Graph) -> list[tuple[str, int, int, int]]:
    often = Counter(weight.layer for weight, _, _ in uses)
    mixed = {name for mixed_weight in graph.mixed_weights.values() for name in mixed_weight.sources}
    return [
        (weight.layer, shape[0], meetings[0].live, meetings[0].nonzero)
        for weight, shape, meetings in uses
        if often[weight.layer] == len(meetings) == 1
        and weight.layer not in mixed
        and meetings[0].live >= 0
        and covers_once(weight.view, shape, math.prod(graph.operands[weight.layer].shape))
    ]
