"""A recorded pass is run by the kernel. What it counts is there at once; which connections were counted is found out
when that is asked, from the values at both ends."""

from __future__ import annotations

from functools import cached_property, partial, reduce

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Shape, Weight
from effsparse_cli.kernel import compiled
from effsparse_cli.kernel.plain import Geometry
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean import BitWeights
from effsparse_cli.paths.edges import Counted, Use, count_kinds
from effsparse_cli.paths.forms import Form, form_of, value_from
from effsparse_cli.paths.geometry import both_ways
from effsparse_cli.paths.maps import Value
from effsparse_cli.paths.mixing import operands_of
from effsparse_cli.paths.packing import Reading
from effsparse_cli.paths.recorder import Meeting, Register
from effsparse_cli.paths.recording import Program


class Replay:
    """One run of a program, with the same answers as a Sweep over the graph."""

    def __init__(self, program: Program, graph: Graph) -> None:
        operands = operands_of(graph)
        reading = Reading(program.sheets, operands, program.tight)
        weights = BitWeights(operands, reading)
        ran, self._tallies, self._asked, filled, counts = compiled.run(
            program.compiled,
            reading.words,
            program.order,
            reading.open,
            partial(ask, program, weights),
            partial(_ways, program),
            reading.helped,
        )
        reading.counts = memoryview(counts).cast("q")
        self.alive = bytes(map((filled + b"\0").__getitem__, program.live))
        self.counted = {
            layer: Counted(count_kinds(self._tallies[live], self._tallies[nonzero]), rows, self._tallies[live][5])
            for layer, rows, live, nonzero in program.plain
            if not self._asked[live] and not self._asked[nonzero]
        }
        self._program = program
        self._look = partial(_look, weights, ran)

    @cached_property
    def uses(self) -> dict[Weight, Use]:
        return {weight: self._use(weight, shape, meetings) for weight, shape, meetings in self._program.uses}

    def _use(self, weight: Weight, shape: Shape, meetings: list[Meeting]) -> Use:
        look = self._look
        first, *others = meetings
        if others or first.live < 0 or self._asked[first.live] or self._asked[first.nonzero]:
            return reduce(Use.merge, map(look, meetings))
        return Use(weight, shape, lambda: look(first).seen, (self._tallies[first.live], self._tallies[first.nonzero]))


def _look(weights: BitWeights, ran: object, meeting: Meeting) -> Use:
    def value(register: Register) -> Value:
        return value_from(compiled.value(ran, register.number), register.rank)

    live = value(meeting.x.live)
    nonzero = live if meeting.x.nonzero is meeting.x.live else value(meeting.x.nonzero)
    return meeting.does(weights, Flow(live, nonzero), value(meeting.y))


def ask(program: Program, weights: BitWeights, instruction: int, forms: list[Form]) -> list[Form]:
    """Does what the kernel cannot."""
    call = program.calls[instruction]
    values = [value_from(form, rank) for form, rank in zip(forms, call.ranks, strict=True)]
    return [form_of(value) for value in call.does(weights, values)]


def _ways(program: Program, contraction: int, batch: int) -> tuple[Geometry, Geometry]:
    op, x_shape = program.ways[contraction]
    forward, back = both_ways(op, x_shape, (batch,))
    return forward.geometry, back.geometry
