"""MatMul, Gemm, Einsum: a position of a summed axis may go if its terms are zero; other axes follow the result."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.onnx.rules.elementwise import broadcast, broadcast_zeros
from effsparse_cli.compaction.positions import Ids, PositionFacts, ValuePositions, Work
from effsparse_cli.graph.equations import matmul_equation, split_equation
from effsparse_cli.graph.primitives import Bools


def contract(
    facts: PositionFacts, a: ValuePositions, b: ValuePositions, of_a: str, of_b: str, result: str
) -> ValuePositions:
    """Contract two operands that have one letter per axis. Letters that the result lacks are summed over."""
    axes: dict[str, Ids] = {}
    for letters, value in ((of_a, a), (of_b, b)):
        for letter, ids in zip(letters, value.axes, strict=True):
            if len(ids) > len(axes.get(letter, ())):
                axes[letter], ids = ids, axes.get(letter, ids)
            if len(ids) == len(axes[letter]):
                facts.join(axes[letter], ids)
            else:
                facts.need(ids)
    constant, letters, live, of_live = (b, of_b, a, of_a) if b.array is not None else (a, of_a, b, of_b)
    summed = [letter for letter in axes if letter not in result]
    if constant.array is None:
        zeros = _of_activations(facts, axes, summed, ((a, of_a), (b, of_b)))
    else:
        zeros = _of_constant(facts, summed, constant, letters, live, of_live)
    facts.works.append(Work(constant.stored, tuple(axes.values())))
    none = a.all_zero or b.all_zero
    found = (np.broadcast_to(zeros[letter] | none, (len(axes[letter]),)) for letter in result)
    return ValuePositions(tuple(axes[letter] for letter in result), tuple(found))


def _of_constant(
    facts: PositionFacts, summed: list[str], constant: ValuePositions, letters: str, live: ValuePositions, of_live: str
) -> dict[str, Bools]:
    """Return zeros by letter. Terms are zero where the constant is, or where the other operand always is."""
    assert constant.array is not None
    nonzero = np.asarray(constant.array != 0)
    for letter in set(letters) & set(of_live):
        there = ~live.zero(of_live.index(letter))
        axis = letters.index(letter)
        if len(there) == nonzero.shape[axis]:
            nonzero = nonzero & there.reshape([-1 if i == axis else 1 for i in range(nonzero.ndim)])
    facts.terms(nonzero, constant.axes, tuple(i for i, letter in enumerate(letters) if letter in summed))
    for letter in summed:
        if letter not in letters:
            facts.need(live.axes[of_live.index(letter)])
    zeros = {letter: live.zero(axis) for axis, letter in enumerate(of_live)}
    for axis, letter in enumerate(letters):
        others = tuple(i for i in range(nonzero.ndim) if i != axis)
        zero = ~nonzero.any(axis=others)
        zeros[letter] = np.asarray(zeros[letter] | zero if letter in zeros else zero)
    return zeros


def _of_activations(
    facts: PositionFacts, axes: dict[str, Ids], summed: list[str], operands: tuple[tuple[ValuePositions, str], ...]
) -> dict[str, Bools]:
    zeros: dict[str, Bools] = {}
    for value, letters in operands:
        for axis, letter in enumerate(letters):
            zeros[letter] = zeros[letter] | value.zero(axis) if letter in zeros else value.zero(axis)
    for letter in summed:
        there = np.broadcast_to(~zeros[letter], (len(axes[letter]),))
        facts.need(axes[letter][there])
    return zeros


def matmul(op: OpPositions) -> ValuePositions:
    a, b = op.x(0), op.x(1)
    of_a, of_b, result = split_equation(matmul_equation(len(a.axes), len(b.axes)))
    return contract(op.facts, a, b, of_a, of_b, result)


def gemm(op: OpPositions) -> ValuePositions:
    flips = bool(op.attr("transA", 0)), bool(op.attr("transB", 0))
    of_a, of_b, result = split_equation(matmul_equation(2, 2, *flips))
    product = contract(op.facts, op.x(0), op.x(1), of_a, of_b, result)
    bias = op.get(2)
    if bias is None:
        return product
    axes = broadcast(op.facts, [product, bias], op.shape)
    pairs = zip(product.zeros, broadcast_zeros(bias, op.shape), strict=True)
    return ValuePositions(axes, tuple(ours & theirs for ours, theirs in pairs))


def einsum(op: OpPositions) -> ValuePositions:
    equation = op.attr("equation", "").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    operands = terms.split(",")
    repeated = any(len(set(term)) < len(term) for term in [*operands, result])
    if not arrow or len(operands) != 2 or repeated or "." in equation:
        raise NoRuleError
    return contract(op.facts, op.x(0), op.x(1), operands[0], operands[1], result)
