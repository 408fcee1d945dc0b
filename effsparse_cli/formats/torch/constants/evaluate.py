"""Run operators on constants, for a graph that may come from a file: only pure operators, and only if the memory and
time that a call would need, estimated from sizes or on the meta device, are within the budget of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from effsparse_cli.errors import LoadError, first_line
from effsparse_cli.formats.torch.constants.costs import Arguments, Tensors, broadcast, few_steps, numel
from effsparse_cli.formats.torch.operators import TEXT_ARGUMENTS, find_operator, is_pure, is_random

BYTES, PER_BYTE = 1 << 29, 32
"""Memory that constants may take at a time: for any model, and per byte that it stores."""
WORK, PER_ELEMENT = 1 << 33, 1 << 12
"""Elementary steps in total: for any model, and per element that it stores."""
SECONDS, BYTES_PER_SECOND = 20.0, 5e6
CALL_STEPS = 1 << 18
"""Steps that a call takes however small it is."""
WIDEST = 8
"""Most bytes that an element takes, in any type."""
MOST_RESULTS = 1 << 16
"""Most results that one call may have."""


class Budget:
    """The remaining budget for evaluating constants. `stored` is the size of the model's tensors in bytes."""

    def __init__(self, stored: int = 0) -> None:
        self.room = BYTES + PER_BYTE * stored
        self.work = WORK + PER_ELEMENT * stored
        self.seconds = SECONDS + stored / BYTES_PER_SECOND
        self._held: list[tuple[StorageWeakRef, int]] = []
        self._bytes = 0

    def spend(self, name: str, size: int, work: int) -> None:
        """Refuse a call that would need more than is left."""
        if self._bytes + size > self.room:
            self._held = [(ref, n) for ref, n in self._held if not ref.expired()]  # type: ignore[no-untyped-call]
            self._bytes = sum(n for _, n in self._held)
        if self._bytes + size > self.room or work > self.work or self.seconds <= 0:
            what = "memory" if self._bytes + size > self.room else "time"
            raise LoadError(
                f"computing the model's constants needs too much {what} for its size (stopped at {name}). "
                "Store them in the model instead of computing them."
            )
        self.work -= work

    def hold(self, tensors: Sequence[torch.Tensor]) -> None:
        """Count the memory of new tensors for as long as they exist."""
        for tensor in tensors:
            if tensor.layout == torch.strided and not tensor.is_meta:
                storage = tensor.untyped_storage()
                self._held.append((StorageWeakRef(storage), storage.nbytes()))  # type: ignore[no-untyped-call]
                self._bytes += storage.nbytes()


class CannotEvaluateError(RuntimeError):
    """The cost of a call is not known, so it is not made."""


def may_evaluate(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call always returns the same and does nothing else."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    arguments = by_name(target, args, kwargs)
    training = arguments.get("train", arguments.get("training", True)) is not False
    if not is_pure(target) and (training or not is_random(target)):
        return False
    if arguments.get("unsafe"):
        return False
    rest = [value for name, value in arguments.items() if name not in TEXT_ARGUMENTS]
    return not any(isinstance(leaf, str) for leaf in _leaves(rest))


@dataclass(frozen=True)
class BudgetedOperator:
    """An operator that checks the cost of each call first."""

    target: torch._ops.OpOverload
    budget: Budget

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return run(self.target, args, kwargs, self.budget)
        except CannotEvaluateError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = first_line(error, 200)
            raise LoadError(f"{self.target} fails on the model's own constants: {reason}") from error

    @property
    def copies(self) -> bool:
        """Whether it returns one tensor that is never a view."""
        schema = self.target._schema
        return len(schema.returns) == 1 and not any(argument.alias_info is not None for argument in schema.arguments)


_computed: dict[Callable[[], torch.Tensor], torch.Tensor] | None = None


def computed_once(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Compute a constant once while others are computed from it: its uses may double with each operator."""

    def now() -> torch.Tensor:
        global _computed
        if _computed is None:
            _computed = {}
            try:
                return compute()
            finally:
                _computed = None
        if now not in _computed:
            _computed[now] = compute()
        return _computed[now]

    return now


def run(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], budget: Budget) -> Any:
    """Return the results of a call that may be evaluated, on tensors."""
    name = str(target).removesuffix(".default")
    given = _tensors((list(args), dict(kwargs)))
    size, work = _cost(target, args, kwargs, given)
    budget.spend(name, size, work + CALL_STEPS)
    started = time.monotonic()
    with torch.no_grad():
        result = target(*args, **kwargs)
    budget.seconds -= time.monotonic() - started
    budget.hold(_new(_tensors(result), given))
    return result


def _leaves(tree: Any) -> Iterator[Any]:
    """Arguments and results are nested lists. torch's own pytree functions take as long as most operators."""
    if isinstance(tree, list | tuple):
        for each in tree:
            yield from _leaves(each)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from _leaves(each)
    else:
        yield tree


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _leaves(tree) if isinstance(leaf, torch.Tensor)]


def _blank(tree: Any) -> Any:
    """Return the same with tensors on the meta device."""
    if isinstance(tree, torch.Tensor):
        return torch.empty_strided(tree.shape, tree.stride(), dtype=tree.dtype, device="meta")
    if isinstance(tree, torch.device):
        return torch.device("meta")
    if isinstance(tree, list | tuple):
        return [_blank(each) for each in tree]
    if isinstance(tree, dict):
        return {name: _blank(each) for name, each in tree.items()}
    return tree


def _new(made: list[torch.Tensor], given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return those that have memory of their own."""
    shared = {t.untyped_storage()._cdata for t in given if t.layout == torch.strided}
    return [t for t in made if t.layout == torch.strided and t.untyped_storage()._cdata not in shared]


def _cost(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: list[torch.Tensor]) -> tuple[int, int]:
    """Return the bytes that the results take, and the elementary steps."""
    _check_result_count(target, args, given)
    if any(tensor.is_meta for tensor in given):
        return 0, len(given)
    read = sum(tensor.numel() for tensor in given)
    operator = find_operator(target)
    if target.overloadpacket.__name__ == "repeat_interleave" and target._overloadname == "Tensor":
        return 8 * int(given[0].sum()), read + int(given[0].sum())
    irregular = any(t.layout != torch.strided or t.is_quantized for t in given)
    if irregular or (operator is not None and operator.size_from_values):
        # No such result has more than a few times the elements of its operands.
        return 16 * read * max((t.ndim for t in given), default=1), 16 * read
    if operator is not None and operator.most_evaluated is not None and read > operator.most_evaluated:
        raise CannotEvaluateError
    arguments, steps = by_name(target, args, kwargs), operator.steps if operator is not None else few_steps
    known = result_size(target, arguments, given)
    if known is not None:
        size, written = known * WIDEST, known
    else:
        made, blank = _try(target, args, kwargs)
        tensors = _tensors(made)
        size = sum(t.numel() * t.element_size() for t in _new(tensors, _tensors(blank)))
        written = sum(t.numel() for t in tensors)
    return size, read + written * max(1, steps(arguments, given, written))


def result_size(target: torch._ops.OpOverload, arguments: Arguments, tensors: Tensors) -> int | None:
    """Return an upper bound on the elements of the results, 0 for a view, None if there is no rule."""
    name, operator = target.overloadpacket.__name__, find_operator(target)
    if name.endswith("_") and not name.startswith("__"):
        return 0 if target._schema.arguments[0].alias_info is not None else None
    if operator is not None and operator.view_or_copy:
        return numel(tensors[0])
    if any(argument.alias_info is not None and not argument.is_out for argument in target._schema.arguments):
        return 0
    if operator is not None and operator.result_size is not None:
        return operator.result_size(arguments, tensors)
    return broadcast(arguments, tensors) if torch.Tag.pointwise in target.tags and tensors else None


def results_of(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the results of a call as a flat list: tensors on the meta device, and numbers."""
    return list(_leaves(_try(target, args, kwargs)[0]))


def _try(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Make a call on the meta device; return its results and its arguments."""
    given = _blank(args), _blank(dict(kwargs))
    tensors = _tensors(given)
    _check_result_count(target, args, tensors)
    if not tensors and any(argument.name == "device" for argument in target._schema.arguments):
        given[1]["device"] = torch.device("meta")
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return target(*given[0], **given[1]), given
    except Exception as error:
        raise CannotEvaluateError from error


def _check_result_count(target: Any, args: Sequence[Any], given: list[torch.Tensor]) -> None:
    """Refuse a call that would return a long list: even its shapes would take too long."""
    if not any("[]" in str(result.type) or "List" in str(result.type) for result in target._schema.returns):
        return
    numbers = [leaf for leaf in _leaves(args) if type(leaf) is int]
    longest = max((size for tensor in given for size in tensor.shape), default=0)
    if longest > MOST_RESULTS or max(numbers, default=0) > MOST_RESULTS:
        raise LoadError(f"{target} in the model has too many results")


def by_name(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, with defaults."""
    schema = target._schema.arguments
    named = {argument.name: value for argument, value in zip(schema, args, strict=False)}
    defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
    return {**defaults, **named, **kwargs}
