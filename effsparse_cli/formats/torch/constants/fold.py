"""Evaluate a call on constants and follow every element of the stored tensors through it: data movement moves index
maps, elementwise arithmetic keeps those of the weight, a product with zeros and ones is a mask, and the rest mixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from effsparse_cli.formats.torch.constants import index_maps
from effsparse_cli.formats.torch.constants.evaluate import BudgetedOperator, computed_once
from effsparse_cli.formats.torch.operators import Folding
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tensors import nonzero
from effsparse_cli.formats.torch.values import Arg, ConstantValue, Keep, Made, Part, Record, Result

PIECE = 1 << 15
"""Elements that fit into the cache."""

Arguments = tuple[list[Any], dict[str, Any]]
Pick = Callable[[ConstantValue], torch.Tensor]


def fold(
    stored: StoredTensors,
    operator: BudgetedOperator,
    arguments: Arguments,
    *,
    folding: Folding,
    pinned: bool,
    lower: Callable[[int], Callable[[], int]] | None,
    record: Record | None,
) -> Result:
    """Return the results of a call on constants. `folding` is that of the operator's row. `pinned`: a result is written
    to in place later, so it cannot be computed again. `lower` gives the function that lowers a result, `record` is the
    call itself if stored tensors contribute to it."""
    constants = [leaf for leaf in tree_flatten(arguments)[0] if isinstance(leaf, ConstantValue)]
    result = _evaluate(operator, arguments, lambda c: c.tensor)
    flat, spec = tree_flatten(result)
    origins = [c for c in constants if c.parts]
    values: list[Any] = []
    for i, tensor in enumerate(flat):
        if not isinstance(tensor, torch.Tensor):
            values.append(tensor)
            continue
        compute = (lambda t=tensor: t) if pinned or not origins else computed_once(_again(operator, arguments, i))
        parts: tuple[Part, ...] = ()
        mixed = [p for c in constants for p in c.mixed]
        if folding == "reshapes":
            # Not by the operator itself: a copy may have changed the strides that its view relied on.
            parts = tuple(
                replace(p, index_map=index_maps.move(p.index_map, _reshape_to(tensor.shape)))
                for c in origins[:1]
                for p in c.parts
            )
        elif folding == "moves":
            parts = _moved_parts(operator, arguments, i)
        elif folding != "mixes":
            parts, mixed = _Elementwise(stored, folding, constants, tensor, compute).find_parts()
        if not parts:
            mixed += [p for c in origins for p in c.parts]
        once = tuple({p.stored: p for p in reversed(mixed)}.values())
        recipe = Made(record, i) if record else None
        values.append(ConstantValue(tensor, compute, parts, lower(i) if lower else None, once, recipe))
    return spec.unflatten(values) if isinstance(result, list | tuple) else values[0]


def _evaluate(operator: BudgetedOperator, arguments: Arguments, pick: Pick) -> Result:
    args, kwargs = tree_map(lambda v: pick(v) if isinstance(v, ConstantValue) else v, arguments)
    with torch.no_grad():
        return operator(*args, **kwargs)


def _evaluate_one(operator: BudgetedOperator, arguments: Arguments, pick: Pick, position: int) -> torch.Tensor:
    result: torch.Tensor = tree_flatten(_evaluate(operator, arguments, pick))[0][position]
    return result


def _again(operator: BudgetedOperator, arguments: Arguments, position: int) -> Callable[[], torch.Tensor]:
    """Return a function that evaluates again, from the stored tensors as they are then. It holds no other tensor."""
    nothing = torch.empty(0)
    lean = tree_map(lambda v: ConstantValue(nothing, v.compute) if isinstance(v, ConstantValue) else v, arguments)
    return lambda: _evaluate_one(operator, lean, lambda c: c.compute(), position)


def _moved_parts(operator: BudgetedOperator, arguments: Arguments, position: int) -> tuple[Part, ...]:
    """Move the parts of the first argument; further tensors are indices. Each stored tensor gives one part."""
    data = [leaf for leaf in tree_flatten(arguments[0][:1])[0] if isinstance(leaf, ConstantValue)]
    moved = []
    for chosen in _group_by_stored(data):

        def arrange(index_map: torch.Tensor, chosen: dict[ConstantValue, Part] = chosen) -> torch.Tensor:
            if index_map.is_meta and operator.copies:
                return index_map.new_empty(0)  # not a view, which is all that the caller asks
            if index_map.is_meta:
                return _evaluate_one(operator, arguments, lambda c: index_map if c in data else c.tensor, position)
            # Positions plus one, so that the zeros of a padding become -1.
            return _evaluate_one(operator, arguments, partial(_positions_plus_one, chosen, data), position) - 1

        part = next(iter(chosen.values()))
        one = len(data) == 1
        new = index_maps.move(part.index_map, arrange) if one else arrange(index_maps.to_positions(part.index_map))
        moved.append(replace(part, index_map=new))
    return tuple(moved)


def _group_by_stored(data: list[ConstantValue]) -> Iterator[dict[ConstantValue, Part]]:
    """Group the operands' parts by stored tensor, with at most one part of each operand in a group."""
    for name in dict.fromkeys(p.stored for value in data for p in value.parts):
        own = {value: [p for p in value.parts if p.stored == name] for value in data}
        for i in range(max(len(parts) for parts in own.values())):
            yield {value: parts[i] for value, parts in own.items() if i < len(parts)}


def _reshape_to(shape: torch.Size) -> index_maps.Arrange:
    return lambda index_map: index_map.reshape(shape)


def _positions_plus_one(
    chosen: dict[ConstantValue, Part], data: list[ConstantValue], value: ConstantValue
) -> torch.Tensor:
    """Return one plus the stored positions of an operand, zero for elements from elsewhere; indices as they are."""
    if value in chosen:
        return index_maps.to_positions(chosen[value].index_map) + 1
    return torch.zeros(value.tensor.shape, dtype=torch.int64) if value in data else value.tensor.cpu()


@dataclass(frozen=True, eq=False)
class _Elementwise:
    """An elementwise call on constants, and one of its results."""

    stored: StoredTensors
    folding: Folding
    constants: list[ConstantValue]
    result: torch.Tensor
    compute: Callable[[], torch.Tensor]

    def find_parts(self) -> tuple[tuple[Part, ...], list[Part]]:
        """Return the parts of the result, which are those of the operand of full shape that is not the mask, and what
        was mixed into it. What is mixed only into another tensor's mask decides what is kept and is not a weight."""
        mixed = [p for c in self.constants for p in c.mixed]
        shape = self.result.shape
        full = [c for c in self.constants if c.parts and c.tensor.shape == shape and c.tensor.is_floating_point()]
        if not full or not self.result.is_floating_point():
            return (), mixed
        full.sort(key=lambda c: all(p.stored not in self.stored.parameters for p in c.parts))
        mask = self._find_mask(full) if self.folding == "masks" and len(self.constants) == 2 else None
        weight = next((c for c in full if c is not mask), full[0])
        if mask is not None and weight is not mask:
            own = {p.stored for p in (*weight.parts, *weight.mixed)}
            mixed = [*weight.mixed, *(p for p in mask.mixed if p.stored in own)]
            return tuple(replace(p, keep=self._kept_by_mask(p, mask), masked=True) for p in weight.parts), mixed
        # x by a sum is the sum of x by each: the elements of every summand are connections of their own.
        if self.folding == "adds" and len({p.stored for c in full for p in c.parts}) > 1:
            return tuple(p for c in full for p in c.parts), mixed
        unchanged = bool(mixed) or (self.folding == "copies" and weight.tensor.dtype == self.result.dtype)
        # Masked elements stay zero: zero times anything is zero.
        keeps_zero = self.folding in ("copies", "scales", "masks")
        return tuple(
            p if unchanged or (p.masked and keeps_zero) else replace(p, keep=self._kept_by_value(p), masked=False)
            for p in (*weight.parts, *_same_stored(weight, full))
        ), mixed

    def _find_mask(self, full: list[ConstantValue]) -> ConstantValue | None:
        """Return the operand of a product that is all zeros and ones if the other is not, or the one that is called a
        mask if both are. An operand that broadcasts may be a scale, so it has to be boolean or called a mask."""
        shape = full[0].tensor.shape
        binary = [
            c
            for c in self.constants
            if c.tensor.shape == shape or c.tensor.dtype == torch.bool or any("mask" in p.stored for p in c.parts)
            if _is_binary(c.tensor)
        ]
        if len(binary) == 1:
            return binary[0] if any(c is not binary[0] for c in full) else None
        named = [c for c in binary if any("mask" in p.stored for p in c.parts)]
        return named[0] if len(named) == 1 and any(c is not named[0] for c in full) else None

    def _kept_by_mask(self, part: Part, mask: ConstantValue) -> Keep:
        shape = tuple(self.stored.tensors[part.stored].shape)
        before = part.keep if part.masked else None

        def keep(compute: Callable[[], torch.Tensor] = mask.compute) -> Arg:
            kept = index_maps.put_back(nonzero(compute()), part.index_map, shape, elsewhere=False)
            return kept & before() if before else kept

        return keep

    def _kept_by_value(self, part: Part) -> Keep:
        tensor, compute = self.stored.tensors[part.stored], self.compute
        shape = tuple(tensor.shape)
        return lambda: index_maps.put_back(nonzero(compute()), part.index_map, shape, elsewhere=nonzero(tensor))


def _same_stored(weight: ConstantValue, full: list[ConstantValue]) -> Iterator[Part]:
    """Find elements of the same stored tensor that another operand has in other places: w + w.T uses each twice."""
    names = {p.stored for p in weight.parts}
    for other in full:
        yield from (p for p in other.parts if other is not weight and p.stored in names)


def _is_binary(tensor: torch.Tensor) -> bool:
    """Whether all elements are 0 or 1. The first piece already rules out nearly every weight."""
    return all(bool(((piece == 0) | (piece == 1)).all()) for piece in torch.split(tensor.flatten(), PIECE))
