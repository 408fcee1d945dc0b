"""The rules' verbs, written down: what they ask for becomes instructions on registers, which the kernel compiles into a
program. Weights and values enter later, when the program is run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps, Weight
from effsparse_cli.kernel import compiled
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean import BitWeights
from effsparse_cli.paths.boolean_arrays import BOOLEAN, elementwise
from effsparse_cli.paths.edges import Use
from effsparse_cli.paths.forms import Form, form_of
from effsparse_cli.paths.geometry import both_ways
from effsparse_cli.paths.maps import Value
from effsparse_cli.paths.packing import Sheets
from effsparse_cli.paths.schedule import Instruction, Reading, schedule, twins


@dataclass(frozen=True, eq=False)
class Register:
    number: int
    rank: int


class Call(NamedTuple):
    """An instruction as Python does it: the ranks of the values that it gets, and what makes its results of them."""

    ranks: tuple[int, ...]
    does: Callable[[BitWeights, list[Value]], list[Value]]


class Meeting(NamedTuple):
    """A use of a weight: the registers of x and y; which meeting of all it is, with what is live of x and with what is
    not always zero, or -1 where the kernel is not asked; and how Python finds the use."""

    x: Flow[Register]
    y: Register
    live: int
    nonzero: int
    does: Callable[[BitWeights, Flow[Value], Value], Use]


class Recorder:
    """The verbs of Arrays and Weights (paths/algebra.py), on registers."""

    def __init__(self, sheets: Sheets) -> None:
        self.calls: list[Call] = []
        self.ways: list[tuple[Contract, Shape]] = []
        self._sheets = sheets
        self._ranks: list[int] = []
        self._instructions: list[Instruction] = []
        self._constants: list[tuple[int, Form]] = []
        self._contractions: list[tuple[Any, ...]] = []
        self._contracted: dict[object, int] = {}
        self._lifted: dict[object, Register] = {}
        self._meetings = 0

    def compile(self) -> tuple[object, frozenset[int]]:
        """What the kernel makes of it, and the sheets that may be read late; calls are in the order that it takes."""
        order, late = schedule(self._instructions, [self._reading(each) for each in self._instructions])
        instructions = [self._instructions[i] for i in order]
        self.calls = [self.calls[i] for i in order]
        told = [
            (each.verb, twin, np.array(each.inputs, np.int32).tobytes(), each.first, each.results, each.told)
            for each, twin in zip(instructions, twins(instructions), strict=True)
        ]
        ranks = np.array(self._ranks, np.int32).tobytes()
        return compiled.compile(told, self._contractions, self._constants, ranks, self._sheets.sizes), late

    # Arrays

    def lift(self, nonzero: Bools, shape: Shape) -> Register:
        key = id(nonzero) if nonzero.size > 1 else nonzero.item(), len(shape)
        if key not in self._lifted:
            self._lifted[key] = self.constant(form_of(nonzero), len(shape))
        return self._lifted[key]

    def constant(self, form: Form, rank: int) -> Register:
        register = self._register(rank)
        self._constants.append((register.number, form))
        return register

    def support(self, a: Register) -> Register:
        return a

    def any(self, a: Register) -> bool:
        raise TypeError("a recording has no values")

    def is_one(self, a: Register) -> bool:
        return False

    def same(self, a: Register, b: Register) -> bool:
        raise TypeError("a recording has no values")

    def plus(self, terms: Sequence[Register]) -> Register:
        distinct = list({term.number: term for term in terms}.values())
        if len(distinct) == 1:
            return distinct[0]
        return self._one(compiled.PLUS, distinct, lambda _, xs: BOOLEAN.plus(xs))

    def product(self, equation: str, a: Register, b: Register) -> Register:
        verb = compiled.TIMES if elementwise(equation) else compiled.PRODUCT
        terms, result = equation.split("->")
        letters = list(dict.fromkeys([*result, *terms.replace(",", "")]))
        places = [term.find(letter) for letter in letters for term in (*terms.split(","), result)]
        told = len(letters), *places
        return self._one(verb, [a, b], lambda _, xs: BOOLEAN.product(equation, *xs), told, len(result))

    def total(self, a: Register, axes: Sequence[int]) -> Register:
        bits = sum(1 << axis for axis in set(axes))
        return self._one(compiled.TOTAL, [a], lambda _, xs: BOOLEAN.total(xs[0], axes), [bits])

    def expand(self, a: Register, shape: Shape) -> Register:
        return a

    def permute(self, a: Register, dims: Sequence[int]) -> Register:
        return self._one(compiled.PERMUTE, [a], lambda _, xs: BOOLEAN.permute(xs[0], dims), dims)

    def reshape(self, a: Register, old: Shape, new: Shape) -> Register:
        told = len(old), len(new), *old, *new
        return self._one(compiled.RESHAPE, [a], lambda _, xs: BOOLEAN.reshape(xs[0], old, new), told, len(new))

    def take(self, a: Register, axis: int, index: Ints) -> Register:
        told = axis, *index.tolist()
        return self._one(compiled.TAKE, [a], lambda _, xs: BOOLEAN.take(xs[0], axis, index), told)

    def put(self, a: Register, axis: int, index: Ints, size: int) -> Register:
        told = axis, size, *index.tolist()
        return self._one(compiled.PUT, [a], lambda _, xs: BOOLEAN.put(xs[0], axis, index, size), told)

    def concat(self, parts: Sequence[Register], axis: int, sizes: Sequence[int]) -> Register:
        return self._one(compiled.CONCAT, parts, lambda _, xs: BOOLEAN.concat(xs, axis, sizes), [axis, *sizes])

    def split(self, a: Register, axis: int, sizes: Sequence[int]) -> list[Register]:
        told, ranks = [axis, *sizes], [a.rank] * len(sizes)
        return self._write(compiled.SPLIT, [a], lambda _, xs: BOOLEAN.split(xs[0], axis, sizes), told, ranks)

    def window(self, a: Register, axis: int, table: Taps) -> Register:
        every, out = (table >= 0).any(axis=0).all(), table.shape[1]
        told = axis, int(every), 0, out, *table.shape, *table.reshape(-1).tolist()
        return self._one(compiled.WINDOW, [a], lambda _, xs: BOOLEAN.window(xs[0], axis, table), told)

    def unwindow(self, a: Register, axis: int, table: Taps, size: int) -> Register:
        every = len(np.unique(table[table >= 0])) == size
        told = axis, int(every), 1, size, *table.shape, *table.reshape(-1).tolist()
        return self._one(compiled.WINDOW, [a], lambda _, xs: BOOLEAN.unwindow(xs[0], axis, table, size), told)

    # Weights

    def contract(self, x: Register, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Register:
        told = [self._contraction(op, x_shape, weight, shape)]
        return self._one(
            compiled.CONTRACT, [x], lambda weights, xs: weights.contract(xs[0], x_shape, op, weight, shape), told
        )

    def contract_back(
        self, y: Register, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Register:
        told = [self._contraction(op, x_shape, weight, shape)]
        given = y_shape, op, weight, shape, x_shape
        return self._one(compiled.BACK, [y], lambda weights, ys: weights.contract_back(ys[0], *given), told)

    def meet(
        self,
        x: Flow[Register],
        y: Register,
        shapes: tuple[Shape, Shape],
        op: Contract,
        weight: Weight,
        shape: Shape,
    ) -> list[Meeting]:
        told, first = [self._contraction(op, shapes[0], weight, shape)], self._meetings
        for end in {x.live.number: x.live, x.nonzero.number: x.nonzero}.values():
            self._write(compiled.MEET, [end, y], lambda *_: [], told, (), first)
            self._meetings += 1
        return [Meeting(x, y, first, self._meetings - 1, lambda w, x, y: w.meet(x, y, shapes, op, weight, shape))]

    def meet_everywhere(self, x: Flow[Register], y: Register, weight: Weight, shape: Shape) -> list[Meeting]:
        return [Meeting(x, y, -1, -1, lambda w, x, y: w.meet_everywhere(x, y, weight, shape))]

    def merge(self, a: list[Meeting], b: list[Meeting]) -> list[Meeting]:
        return [*a, *b]

    # Writing

    def _contraction(self, op: Contract, x_shape: Shape, weight: Weight, shape: Shape) -> int:
        """Its number: the same forward, backward and where both meet."""
        key = op, x_shape, weight
        if key not in self._contracted:
            rank = len(op.windows)
            axis = len(x_shape) - rank - 1
            forward, back = both_ways(op, x_shape, (1,) * axis)
            channels = shape[1] if len(shape) > 1 else 1
            sizes = (_int64(x_shape[axis + 1 :]), _int64(forward.out))
            ends = self._sheets.of[weight], op.groups, channels, shape[0] // op.groups, axis
            told = (weight in self._sheets.turned, forward.all_ever, *sizes, (forward.geometry, back.geometry))
            self._contracted[key] = len(self._contractions)
            self._contractions.append((*ends, *told))
            self.ways.append((op, x_shape))
        return self._contracted[key]

    def _reading(self, each: Instruction) -> Reading | None:
        if each.verb not in (compiled.CONTRACT, compiled.BACK, compiled.MEET):
            return None
        sheet, _, _, _, _, turned, *_ = self._contractions[int.from_bytes(each.told, sys.byteorder)]
        return Reading(sheet, columns=each.verb == (compiled.CONTRACT if turned else compiled.BACK))

    def _register(self, rank: int) -> Register:
        self._ranks.append(rank)
        return Register(len(self._ranks) - 1, rank)

    def _one(
        self,
        verb: int,
        inputs: Sequence[Register],
        does: Callable[[BitWeights, list[Value]], Value],
        told: Iterable[int] = (),
        rank: int | None = None,
    ) -> Register:
        """An instruction with one result, of the same rank unless another is given."""
        ranks = [inputs[0].rank if rank is None else rank]
        return self._write(verb, inputs, lambda weights, values: [does(weights, values)], told, ranks)[0]

    def _write(
        self,
        verb: int,
        inputs: Sequence[Register],
        does: Callable[[BitWeights, list[Value]], list[Value]],
        told: Iterable[int],
        ranks: Sequence[int],
        apart: int = 0,
    ) -> list[Register]:
        results = [self._register(rank) for rank in ranks]
        first = results[0].number if results else self._meetings
        numbers = tuple(x.number for x in inputs)
        self._instructions.append(Instruction(verb, numbers, first, len(results), _int64(told), apart))
        self.calls.append(Call(tuple(x.rank for x in inputs), does))
        return results


def _int64(numbers: Iterable[int]) -> bytes:
    return np.array(list(numbers), np.int64).tobytes()
