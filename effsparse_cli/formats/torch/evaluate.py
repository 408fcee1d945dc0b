"""Runs operators on constants, for a graph that may come from a file: only pure operators, and only after what a
call would cost in memory and time was found on tensors without memory and compared with what is left."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.extents import extent
from effsparse_cli.formats.torch.pure import RANDOM, TEXTS, is_pure
from effsparse_cli.formats.torch.registry import find
from effsparse_cli.graph.einsum import letter_sizes

BYTES, PER_BYTE = 1 << 29, 32
"""Memory that folded constants may take at a time: so much for any model, and so much per byte that it stores."""
WORK, PER_ELEMENT = 1 << 33, 1 << 12
"""Elementary steps in all: for any model, and per element that it stores."""
CALL = 1 << 18
"""Steps that a call takes however small it is."""
SECONDS, BYTES_PER_SECOND = 20.0, 5e6
LONGEST_RECURRENCE = 1 << 20
WIDEST = 8
"""Bytes of an element, of whatever type."""
PIECES = 1 << 16
"""Results that one call may have."""
CUBIC = ("linalg_", "_linalg_", "matrix_", "cholesky", "inverse", "pinverse", "svd", "qr", "orgqr", "det", "slogdet")
CONTRACTING = ("contraction", "convolution", "einsum", "attention")
DATA_DEPENDENT = {
    "nonzero", "nonzero_numpy", "argwhere", "masked_select", "unique_dim", "_unique2", "unique_consecutive", "item",
    "_local_scalar_dense", "is_nonzero", "equal", "allclose", "bincount", "_is_all_true", "_is_any_true",
}  # fmt: skip
"""How large their results are depends on values, but none has more than a few times what it is given."""


class CannotEvaluateError(RuntimeError):
    """What a call would cost cannot be told, so it is not made."""


class Budget:
    """What evaluating constants may still cost. `stored` are the bytes that the model holds."""

    def __init__(self, stored: int = 0) -> None:
        self.room = BYTES + PER_BYTE * stored
        self.work = WORK + PER_ELEMENT * stored
        self.seconds = SECONDS + stored / BYTES_PER_SECOND
        self._held: list[tuple[StorageWeakRef, int]] = []
        self._bytes = 0

    def spend(self, name: str, size: int, work: int) -> None:
        """Refuse a call that would need more than is left, before it is made."""
        if self._bytes + size > self.room:
            self._held = [(ref, n) for ref, n in self._held if not ref.expired()]  # type: ignore[no-untyped-call]
            self._bytes = sum(n for _, n in self._held)
        if self._bytes + size > self.room or work > self.work or self.seconds <= 0:
            what = "memory" if self._bytes + size > self.room else "time"
            raise LoadError(
                f"the model computes constants that need too much {what} for its size ({name} is where it was "
                "stopped). Store them in the model instead of computing them."
            )
        self.work -= work

    def hold(self, tensors: Sequence[torch.Tensor]) -> None:
        for tensor in tensors:
            if tensor.layout == torch.strided and not tensor.is_meta:
                storage = tensor.untyped_storage()
                self._held.append((StorageWeakRef(storage), storage.nbytes()))  # type: ignore[no-untyped-call]
                self._bytes += storage.nbytes()


def may_evaluate(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call gives the same result whenever it is made, and does nothing else."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    given = _by_name(target, args, kwargs)
    if not is_pure(target):
        off = given.get("train", given.get("training", True)) is False
        if target.namespace != "aten" or target.overloadpacket.__name__.removesuffix("_") not in RANDOM or not off:
            return False
    if given.get("unsafe"):
        return False
    rest = [value for name, value in given.items() if name not in TEXTS]
    return not any(isinstance(leaf, str) for leaf in _leaves(rest))


@dataclass(frozen=True)
class Bounded:
    """An operator whose calls check their cost first."""

    target: torch._ops.OpOverload
    budget: Budget

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return run(self.target, args, kwargs, self.budget)
        except CannotEvaluateError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise LoadError(f"{self.target} in the model fails on its own constants: {reason[:200]}") from error

    @property
    def copies(self) -> bool:
        """Whether what it gives is one tensor, and never a view."""
        schema = self.target._schema
        return len(schema.returns) == 1 and not any(argument.alias_info is not None for argument in schema.arguments)


_known: dict[Callable[[], torch.Tensor], torch.Tensor] | None = None


def remembered(compute: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Compute a constant once while others are computed from it: its uses may double with each operator."""

    def now() -> torch.Tensor:
        global _known
        if _known is None:
            _known = {}
            try:
                return compute()
            finally:
                _known = None
        if now not in _known:
            _known[now] = compute()
        return _known[now]

    return now


def run(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], budget: Budget) -> Any:
    """The results of a call that may be evaluated, on tensors."""
    name = str(target).removesuffix(".default")
    given = _tensors((list(args), dict(kwargs)))
    size, work = _cost(target, args, kwargs, given)
    budget.spend(name, size, work + CALL)
    started = time.monotonic()
    with torch.no_grad():
        result = target(*args, **kwargs)
    budget.seconds -= time.monotonic() - started
    budget.hold(_new(_tensors(result), given))
    return result


def _leaves(tree: Any) -> Iterator[Any]:
    """Arguments and results are nested lists. torch's own function for this takes as long as most operators."""
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
    """The same with tensors that have no memory."""
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
    """Those that have memory of their own."""
    shared = {t.untyped_storage()._cdata for t in given if t.layout == torch.strided}
    return [t for t in made if t.layout == torch.strided and t.untyped_storage()._cdata not in shared]


def _cost(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: list[torch.Tensor]) -> tuple[int, int]:
    """Bytes that the results take, and elementary steps."""
    _check_pieces(target, args, given)
    if any(tensor.is_meta for tensor in given):
        return 0, len(given)
    read = sum(tensor.numel() for tensor in given)
    name = target.overloadpacket.__name__.removesuffix("_")
    if name == "repeat_interleave" and target._overloadname == "Tensor":
        return 8 * int(given[0].sum()), read + int(given[0].sum())
    if name in DATA_DEPENDENT or any(t.layout != torch.strided or t.is_quantized for t in given):
        return 16 * read * max((t.ndim for t in given), default=1), 16 * read
    if _family(target) == "recurrent" and read > LONGEST_RECURRENCE:
        raise CannotEvaluateError
    size, written = _sizes(target, args, kwargs, given)
    return size, read + written * max(1, _steps(target, name, args, given, written))


def _sizes(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: list[torch.Tensor]) -> tuple[int, int]:
    """Bytes that the results of a call take, and how many elements they have."""
    known = extent(target, _by_name(target, args, kwargs), given)
    if known is not None:
        return known * WIDEST, known
    made, blank = _try(target, args, kwargs)
    tensors = _tensors(made)
    new = _new(tensors, _tensors(blank))
    return sum(t.numel() * t.element_size() for t in new), sum(t.numel() for t in tensors)


def results_of(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The results of a call, flat: tensors without memory, and numbers."""
    return list(_leaves(_try(target, args, kwargs)[0]))


def _try(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """A call on tensors without memory: what it gives, and what it was given."""
    given = _blank(args), _blank(dict(kwargs))
    tensors = _tensors(given)
    _check_pieces(target, args, tensors)
    if not tensors and any(argument.name == "device" for argument in target._schema.arguments):
        given[1]["device"] = torch.device("meta")
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return target(*given[0], **given[1]), given
    except Exception as error:
        raise CannotEvaluateError from error


def _check_pieces(target: Any, args: Sequence[Any], given: list[torch.Tensor]) -> None:
    """A call that gives a list must not give a long one: even its shapes would take forever."""
    if not any("[]" in str(result.type) or "List" in str(result.type) for result in target._schema.returns):
        return
    numbers = [leaf for leaf in _leaves(args) if type(leaf) is int]
    longest = max((size for tensor in given for size in tensor.shape), default=0)
    if longest > PIECES or max(numbers, default=0) > PIECES:
        raise LoadError(f"{target} in the model gives too many results")


def _steps(target: Any, name: str, args: Sequence[Any], given: list[torch.Tensor], written: int) -> int:
    """How many steps each element of the result takes."""
    if name == "einsum":
        # The product of the sizes of all letters bounds every intermediate result.
        sizes = letter_sizes(str(args[0]), [tensor.shape for tensor in args[1]])
        return math.prod(sizes.values()) // max(1, written)
    if name in ("tensordot", "kron", "linalg_multi_dot", "chain_matmul"):
        return math.isqrt(math.prod(max(1, tensor.numel()) for tensor in given) // max(1, written)) + 1
    if name.startswith(CUBIC):
        return 30 * max((size for tensor in given for size in tensor.shape), default=1)
    family = _family(target)
    if family == "convolution":
        return max((t.numel() // max(1, t.shape[0]) for t in given[1:2]), default=1)
    if family in ("pooling", "resize"):
        return max((math.prod(tensor.shape[2:]) for tensor in given[:1]), default=1)
    if family in CONTRACTING or name in ("cdist", "_cdist_forward", "_int_mm", "linalg_matmul", "_scaled_mm"):
        return max((size for tensor in given for size in tensor.shape), default=1)
    return 4


def _family(target: Any) -> str:
    entry = find(target.namespace, target.overloadpacket.__name__, target._overloadname)
    return entry.family if entry is not None else ""


def _by_name(target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    schema = target._schema.arguments
    named = {argument.name: value for argument, value in zip(schema, args, strict=False)}
    defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
    return {**defaults, **named, **kwargs}
