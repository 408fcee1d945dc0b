"""Evaluates what no model input reaches with torch itself, and follows every element of a stored tensor
through it: data movement moves the ghosts, elementwise arithmetic keeps those of the weight, and a product
with zeros and ones is a mask. Anything else mixes elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from effsparse_cli.formats.torch.constants import index_maps as ghosts
from effsparse_cli.formats.torch.constants.evaluate import remembered
from effsparse_cli.formats.torch.operators import Folding
from effsparse_cli.formats.torch.stored import Stored
from effsparse_cli.formats.torch.values import Arg, Const, Keep, Lowered, Made, Part, Record, nonzero

PIECE = 1 << 15

Emit = Callable[[int], Callable[[], int]]


def fold(
    stored: Stored,
    target: Callable[..., Any],
    folding: Folding,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    pinned: bool,
    emit: Emit | None,
    record: Record | None,
) -> Lowered:
    """`folding` is that of the operator's row. `pinned`: written to in place later, so its present memory is its value.
    `emit` gives for each result what puts it into the graph by operators, `record` is the operator itself where stored
    tensors enter it."""
    tree = (list(args), kwargs)
    consts = [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Const)]
    result = _evaluate(target, tree, lambda c: c.tensor)
    flat, spec = tree_flatten(result)
    origins = [c for c in consts if c.parts]
    made = []
    for i, tensor in enumerate(flat):
        if not isinstance(tensor, torch.Tensor):
            made.append(tensor)
            continue
        now = (lambda t=tensor: t) if pinned or not origins else remembered(_again(target, tree, i))
        parts: tuple[Part, ...] = ()
        mixed = [p for c in consts for p in c.mixed]
        if folding == "reshapes":
            # Not the operator itself: a copy may have changed the strides that its view relied on.
            parts = tuple(
                replace(p, ghost=ghosts.move(p.ghost, _reshape_to(tensor.shape))) for c in origins[:1] for p in c.parts
            )
        elif folding == "moves":
            parts = _moved_parts(target, tree, i)
        elif folding != "mixes":
            parts, mixed = _kept_parts(stored, folding, consts, origins, tensor, now)
        if not parts:
            mixed += [p for c in origins for p in c.parts]
        once = tuple({p.stored: p for p in reversed(mixed)}.values())
        made.append(Const(tensor, now, parts, emit(i) if emit else None, once, Made(record, i) if record else None))
    return spec.unflatten(made) if isinstance(result, list | tuple) else made[0]


def _evaluate(target: Callable[..., Any], tree: Arg, pick: Callable[[Const], torch.Tensor]) -> Lowered:
    args, kwargs = tree_map(lambda v: pick(v) if isinstance(v, Const) else v, tree)
    with torch.no_grad():
        return target(*args, **kwargs)


def _again(target: Callable[..., Any], tree: Arg, position: int) -> Callable[[], torch.Tensor]:
    """Evaluates once more, from the stored tensors as they are then; holds no tensor but those."""
    nothing = torch.empty(0)
    lean = tree_map(lambda v: Const(nothing, v.now) if isinstance(v, Const) else v, tree)
    return lambda: tree_flatten(_evaluate(target, lean, lambda c: c.now()))[0][position]


def _moved_parts(target: Arg, tree: Arg, position: int) -> tuple[Part, ...]:
    """The first argument is what moves; further tensors are indices. Several operands that hold elements of
    one stored tensor side by side give one part again."""
    data = [leaf for leaf in tree_flatten(tree[0][:1])[0] if isinstance(leaf, Const)]
    moved = []
    for chosen in _together(data):

        def arrange(ghost: torch.Tensor, chosen: dict[Const, Part] = chosen) -> torch.Tensor:
            if ghost.is_meta and getattr(target, "copies", False):
                return ghost.new_empty(0)  # no view of it, which is all that is asked
            if ghost.is_meta:
                return _result(target, tree, lambda c: ghost if c in data else c.tensor, position)
            # One more while moving, so that the zeros of a padding become "from elsewhere".
            return _result(target, tree, partial(_one_more, chosen, data), position) - 1

        part = next(iter(chosen.values()))
        ghost = ghosts.move(part.ghost, arrange) if len(data) == 1 else arrange(ghosts.positions(part.ghost))
        moved.append(replace(part, ghost=ghost))
    return tuple(moved)


def _together(data: list[Const]) -> Iterator[dict[Const, Part]]:
    """The operands' parts, grouped by stored tensor: of each operand at most one in a group."""
    for name in dict.fromkeys(p.stored for const in data for p in const.parts):
        own = {const: [p for p in const.parts if p.stored == name] for const in data}
        for i in range(max(len(parts) for parts in own.values())):
            yield {const: parts[i] for const, parts in own.items() if i < len(parts)}


def _reshape_to(shape: torch.Size) -> ghosts.Arrange:
    return lambda ghost: ghost.reshape(shape)


def _result(target: Arg, tree: Arg, pick: Callable[[Const], torch.Tensor], position: int) -> torch.Tensor:
    result: torch.Tensor = tree_flatten(_evaluate(target, tree, pick))[0][position]
    return result


def _one_more(chosen: dict[Const, Part], data: list[Const], const: Const) -> torch.Tensor:
    """One plus the positions in a stored tensor, zero for what comes from elsewhere; indices as they are."""
    if const in chosen:
        return ghosts.positions(chosen[const].ghost) + 1
    return torch.zeros(const.tensor.shape, dtype=torch.int64) if const in data else const.tensor.cpu()


def _kept_parts(
    stored: Stored,
    folding: Folding,
    consts: list[Const],
    origins: list[Const],
    result: torch.Tensor,
    now: Callable[[], Any],
) -> tuple[tuple[Part, ...], list[Part]]:
    """The origin of an elementwise result is its operand of full shape that is not the mask; with it, what was mixed
    into the result. What is mixed only into another tensor's mask decides what is kept, and is no weight itself."""
    mixed = [p for c in consts for p in c.mixed]
    full = [c for c in origins if c.tensor.shape == result.shape and c.tensor.is_floating_point()]
    if not full or not result.is_floating_point():
        return (), mixed
    full.sort(key=lambda c: all(p.stored not in stored.parameters for p in c.parts))
    mask = _mask(consts, full) if folding == "masks" and len(consts) == 2 else None
    weight = next((c for c in full if c is not mask), full[0])
    if mask is not None and weight is not mask:
        own = {p.stored for p in (*weight.parts, *weight.mixed)}
        mixed = [*weight.mixed, *(p for p in mask.mixed if p.stored in own)]
        return tuple(replace(p, keep=_masked(stored, p, mask), masked=True) for p in weight.parts), mixed
    unchanged = bool(mixed) or (folding == "copies" and weight.tensor.dtype == result.dtype)
    # x by a sum is the sum of x by each: every summand's elements are connections of their own.
    if folding == "adds" and len({p.stored for c in full for p in c.parts}) > 1:
        return tuple(p for c in full for p in c.parts), mixed
    # What a mask took out stays out: zero times anything is zero.
    keeps_zero = folding in ("copies", "scales", "masks")
    return tuple(
        p if unchanged or (p.masked and keeps_zero) else replace(p, keep=_valued(stored, p, now), masked=False)
        for p in (*weight.parts, *_elsewhere_too(weight, full))
    ), mixed


def _elsewhere_too(weight: Const, full: list[Const]) -> Iterator[Part]:
    """Elements of the same stored tensor that another operand has in other places: w + w.T uses each twice."""
    names = {p.stored for p in weight.parts}
    for other in full:
        yield from (p for p in other.parts if other is not weight and p.stored in names)


def _mask(consts: list[Const], full: list[Const]) -> Const | None:
    """The operand of a product that is all zeros and ones, beside one that is not; where both are, the one
    that is called a mask. One that broadcasts may as well be a scale, so it has to be boolean or called a mask."""
    shape = full[0].tensor.shape
    binary = [
        c
        for c in consts
        if c.tensor.shape == shape or c.tensor.dtype == torch.bool or any("mask" in p.stored for p in c.parts)
        if _is_binary(c.tensor)
    ]
    if len(binary) == 1:
        return binary[0] if any(c is not binary[0] for c in full) else None
    named = [c for c in binary if any("mask" in p.stored for p in c.parts)]
    return named[0] if len(named) == 1 and any(c is not named[0] for c in full) else None


def _is_binary(tensor: torch.Tensor) -> bool:
    """All zeros and ones, looked at in pieces: the first tells nearly every weight, and nothing leaves the cache."""
    return all(bool(((piece == 0) | (piece == 1)).all()) for piece in torch.split(tensor.flatten(), PIECE))


def _masked(stored: Stored, part: Part, mask: Const) -> Keep:
    shape = tuple(stored.tensors[part.stored].shape)
    before = part.keep if part.masked else None

    def keep(now: Callable[[], torch.Tensor] = mask.now) -> Lowered:
        placed = ghosts.put_back(nonzero(now()), part.ghost, shape, elsewhere=False)
        return placed & before() if before else placed

    return keep


def _valued(stored: Stored, part: Part, now: Callable[[], torch.Tensor]) -> Keep:
    tensor = stored.tensors[part.stored]
    return lambda: ghosts.put_back(nonzero(now()), part.ghost, tuple(tensor.shape), elsewhere=nonzero(tensor))
