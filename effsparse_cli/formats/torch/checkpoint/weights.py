"""Find the weights in a checkpoint: at the top, under a key that training scripts use, or at the key that the user
passes. Optimizer states, scalars and settings next to them are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.masks.conventions import TORCH_AO
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.modules import Extents, check_names, is_module, is_opaque
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor, size_of

USUAL_KEYS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights")
"""By priority, among entries of similar size. Copies averaged over training (ema) come last."""
AVERAGED = re.compile(r"(?:^|[._])(?:ema|swa|avg|average)", re.IGNORECASE)
MAX_CANDIDATES, MAX_ITEMS, MAX_DEPTH = 100_000, 4_000_000, 16
MAX_PACKED = 4


@dataclass(frozen=True)
class SelectedWeights:
    """Descriptions of tensors by name, or the description of a module."""

    value: Mapping[str, Inert] | Inert
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """A dictionary of tensors or a module in the file, at the keys `path`."""

    path: tuple[str, ...]
    value: Any
    elements: int

    @property
    def key(self) -> str:
        return ".".join(self.path)


def find_weights(file: Path, content: Any, key: str) -> SelectedWeights:
    """Return the entry at `key`, or the largest and most likely one."""
    if key:
        content = _find_key(file, content, key)
    candidates = list(_find_candidates(file, content))
    masks = _find_sparsifier_masks(candidates)
    candidates = [each for each in candidates if not each.path or TORCH_AO.mask_name(each.path[-1]) not in masks]
    if not candidates:
        raise LoadError(f"{file} contains {describe(content)}{f' at {key}' if key else ''} and no named weights.")
    largest = max(each.elements for each in candidates)
    # A loss or a step counter next to the weights is a tensor too.
    near = [each for each in candidates if 2 * each.elements >= largest]
    chosen = min(near, key=_preference)
    value = _read_value(chosen)
    if isinstance(value, Mapping):
        check_names(file, len(value), max(map(len, value), default=0))
        value = {**value, **masks}
    return SelectedWeights(value, tuple(_notes(key, chosen, near)))


def _read_value(candidate: Candidate) -> Mapping[str, Inert] | Inert:
    if isinstance(candidate.value, Inert) and is_module(candidate.value):
        return candidate.value
    found: dict[str, Inert] = {}
    for name, value in items_of(candidate.value):
        # Quantised modules store their weight and bias as a tuple.
        packed = isinstance(value, tuple) and len(value) <= MAX_PACKED
        parts = [(f"{name}.{i}", part) for i, part in enumerate(value)] if packed else [(name, value)]
        found |= {str(part): each for part, each in parts if is_tensor(each)}
    return found


def _find_sparsifier_masks(candidates: list[Candidate]) -> dict[str, Inert]:
    """Return the masks of torch.ao.pruning, which are in the state of the sparsifier instead of the model."""
    found = {
        each.path[-1]: dict(items_of(each.value)).get("mask") for each in candidates if "state" in each.path[-2:-1]
    }
    return {TORCH_AO.mask_name(name): mask for name, mask in found.items() if mask is not None and is_tensor(mask)}


def _preference(candidate: Candidate) -> tuple[bool, int, int]:
    last = candidate.path[-1] if candidate.path else ""
    averaged = any(AVERAGED.search(part) for part in candidate.path)
    return averaged, len(candidate.path), USUAL_KEYS.index(last) if last in USUAL_KEYS else len(USUAL_KEYS)


def _notes(key: str, chosen: Candidate, near: list[Candidate]) -> Iterator[str]:
    full = ".".join(part for part in (key, chosen.key) if part)
    others = [".".join(part for part in (key, each.key) if part) for each in near if each is not chosen]
    if others:
        more = f"{', '.join(others[:4])}{' ...' if len(others) > 4 else ''}"
        yield f"weights from {full}; the file has others, which --key selects, for example --key {others[0]}: {more}"
    elif chosen.path:
        yield f"weights from {full}"


def _find_candidates(file: Path, content: Any) -> Iterator[Candidate]:
    """Yield every dictionary of named tensors and every module once, breadth first."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), content)]
    seen: set[int] = set()
    modules, visited = Extents(file), 0
    for path, value in pending:
        if id(value) in seen or len(seen) > MAX_CANDIDATES or len(path) > MAX_DEPTH:
            continue
        seen.add(id(value))
        if is_module(value):
            yield Candidate(path, value, modules.of(value).elements)
            continue
        inside = list(items_of(value))
        visited += len(inside)
        if visited > MAX_ITEMS:
            raise LoadError(f"{file} is refused: it has far more items than fit into a file of its size.")
        if _is_optimizer(dict(inside)):
            continue
        named = [(name, each) for name, each in inside if isinstance(name, str)]
        sizes = [size_of(each) for _, each in named if is_tensor(each)]
        if sizes:
            yield Candidate(path, value, sum(sizes))
        pending += [((*path, name), each) for name, each in named if not is_tensor(each)]


def items_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a dictionary, of a dictionary subclass, or the attributes of an object."""
    if isinstance(value, Inert):
        value = value.items if isinstance(value.items, dict) else value.state
    if isinstance(value, Mapping):
        yield from value.items()


def _is_optimizer(inside: Mapping[Any, Any]) -> bool:
    return "param_groups" in inside


def _find_key(file: Path, content: Any, key: str) -> Any:
    """Return the value at a key. Dots separate nested keys, unless a key contains them itself; the last part may also
    be a prefix of the names in a state_dict."""
    inside = [(name, value) for name, value in items_of(content) if isinstance(name, str)]
    for name, value in inside:
        if key == name:
            return value
        if key.startswith(f"{name}.") and not is_tensor(value):
            return _find_key(file, value, key.removeprefix(f"{name}."))
    below = {name.removeprefix(f"{key}."): value for name, value in inside if name.startswith(f"{key}.")}
    if below:
        return below
    there = ", ".join(name for name, _ in inside[:12]) + (" ..." if len(inside) > 12 else "")
    raise UsageError(f"--key: {file} has no key {key}. {f'Its keys are {there}.' if there else 'It has no keys.'}")


def describe(content: Any) -> str:
    """Describe the content of a file without weights."""
    if is_tensor(content):
        return "a single unnamed tensor"
    if is_opaque(content):
        return (
            f"an object of {content.of}, which only its own code can read (if you trust the file, --trust runs it; "
            "otherwise save its state_dict and pass the model with --arch, or export it)"
        )
    if isinstance(content, Mapping):
        return _describe_mapping(content)
    if isinstance(content, list | tuple):
        return f"a list of {len(content)} values"
    return f"a value of type {type(content).__name__}"


def _describe_mapping(content: Mapping[Any, Any]) -> str:
    if not content:
        return "an empty dictionary"
    if _is_optimizer(content) or any(isinstance(each, Mapping) and _is_optimizer(each) for each in content.values()):
        return "an optimizer state"
    if any(isinstance(value, Inert) and value.of.startswith("numpy.") for value in content.values()):
        return "NumPy arrays instead of tensors"
    if any(is_tensor(value) for value in content.values()):
        kind = type(next(name for name, value in content.items() if is_tensor(value))).__name__
        return f"tensors under keys of type {kind}"
    named = ", ".join(str(name)[:40] for name in list(content)[:4])
    return f"a dictionary without tensors ({named}{' ...' if len(content) > 4 else ''})"
