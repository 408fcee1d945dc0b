"""What is done in another order is all done, after what it needs; and who is said to be late may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.kernel import compiled
from effsparse_cli.paths.schedule import Instruction, Reading, schedule, twins

WEIGHT_VERBS = [compiled.CONTRACT, compiled.BACK, compiled.MEET]
Program = tuple[list[Instruction], list[Reading | None]]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Registers 0 and 1 are there from the start."""
    registers, meetings = 2, 0
    instructions: list[Instruction] = []
    readings: list[Reading | None] = []
    for _ in range(draw(st.integers(1, 25))):
        verb = draw(st.sampled_from([compiled.PLUS, compiled.SPLIT, *WEIGHT_VERBS]))
        inputs = draw(st.tuples(*[st.integers(0, registers - 1)] * (1 if verb == compiled.SPLIT else 2)))
        results = {compiled.MEET: 0, compiled.SPLIT: 2}.get(verb, 1)
        told = bytes([draw(st.integers(0, 2))])
        first = meetings if verb == compiled.MEET else registers
        instructions.append(Instruction(verb, inputs, first, results, told, draw(st.integers(0, 1))))
        readings.append(Reading(told[0], verb == compiled.BACK) if verb in WEIGHT_VERBS else None)
        registers, meetings = registers + results, meetings + (verb == compiled.MEET)
    return instructions, readings


@given(programs())
def test_all_are_done_after_what_they_need(program: Program) -> None:
    order, _ = schedule(*program)
    assert sorted(order) == list(range(len(program[0])))
    written = {0, 1}
    for i in order:
        _, inputs, first, results, _, _ = program[0][i]
        assert written.issuperset(inputs)
        written.update(range(first, first + results))


@given(programs())
def test_whole_weights_that_are_late_are_asked_for_when_nothing_else_is_left(program: Program) -> None:
    instructions, readings = program
    order, late = schedule(*program)
    asks = [i for i in order if (r := readings[i]) is not None and r.sheet in late and not r.columns]
    if asks:
        behind = order[order.index(asks[0]) :]
        results = {
            k for i in behind for k in range(instructions[i].first, instructions[i].first + instructions[i].results)
        }
        for i in behind:
            verb, inputs, *_ = instructions[i]
            assert verb != compiled.MEET or results.isdisjoint(inputs)  # nobody's counts hang on them
    columns = {r.sheet for r in readings if r is not None and r.columns}
    assert late <= columns


@given(programs())
def test_twins_differ_in_their_values_alone(program: Program) -> None:
    instructions, _ = program
    for i, twin in enumerate(twins(instructions)):
        each = instructions[i]
        like = [k for k in range(i) if instructions[k]._replace(inputs=each.inputs, first=each.first) == each]
        assert twin == max(like, default=-1)
