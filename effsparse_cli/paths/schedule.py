"""The order in which a recorded pass is done. Instructions enter as they were written down; what nothing else waits for
comes last, so that weights of which the rest needs little can be read while the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from effsparse_cli.kernel import compiled


class Instruction(NamedTuple):
    """`first` is the register of the first of its results, or the number of a meeting. `told` says all that the kernel
    has to know of it; instructions that are `apart` are no twins."""

    verb: int
    inputs: tuple[int, ...]
    first: int
    results: int
    told: bytes
    apart: int = 0


class Reading(NamedTuple):
    """How an instruction reads a weight: which sheet, and whether it asks for nothing but the columns in use."""

    sheet: int
    columns: bool


def schedule(
    instructions: Sequence[Instruction], readings: Sequence[Reading | None]
) -> tuple[list[int], frozenset[int]]:
    """The numbers of all instructions in a new order; and the sheets that nothing but the last of them asks for more
    than columns."""
    needed = _needed(instructions)
    meets = [each.verb == compiled.MEET for each in instructions]
    asked = [r for r, need, meet in zip(readings, needed, meets, strict=True) if r is not None and need and not meet]
    late = {r.sheet for r in asked if r.columns} - {r.sheet for r in asked if not r.columns}
    last = [
        not need or (meet and r is not None and r.sheet in late)
        for r, need, meet in zip(readings, needed, meets, strict=True)
    ]
    return sorted(range(len(instructions)), key=last.__getitem__), frozenset(late)


def _needed(instructions: Sequence[Instruction]) -> list[bool]:
    """Does a meeting wait for it?"""
    needed, wanted = [False] * len(instructions), set[int]()
    for i in reversed(range(len(instructions))):
        verb, inputs, first, results, _, _ = instructions[i]
        if verb == compiled.MEET or not wanted.isdisjoint(range(first, first + results)):
            needed[i] = True
            wanted.update(inputs)
    return needed


def twins(instructions: Sequence[Instruction]) -> list[int]:
    """For each the last one before it that does the same to other values, or -1: verb and all that it is told being the
    same, what it does to the same values is too."""
    last: dict[object, int] = {}
    found = []
    for i, each in enumerate(instructions):
        key = each.verb, len(each.inputs), each.told, each.apart
        found.append(last.get(key, -1))
        last[key] = i
    return found
