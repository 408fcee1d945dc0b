"""Where in a checkpoint the weights are: in the file itself, under a key that training scripts use, or where the user
says. Optimizer states, scalars and settings beside them are passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.masks.conventions import TORCH_AO
from effsparse_cli.formats.torch.checkpoint.pickle.extent import check_names
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.modules import extents, is_module, is_opaque
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor, size_of

USUAL = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights")
"""In this order, where several places hold as much. Copies that are averaged over training (ema) come last."""
AVERAGED = re.compile(r"(?:^|[._])(?:ema|swa|avg|average)", re.IGNORECASE)
MOST_PLACES, MOST_ENTRIES = 100_000, 4_000_000
PACKED = 4


@dataclass(frozen=True)
class Picked:
    """The descriptions of tensors by name, or that of a module."""

    value: Mapping[str, Inert] | Inert
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    path: tuple[str, ...]
    value: Any
    elements: int

    @property
    def key(self) -> str:
        return ".".join(self.path)


def pick(file: Path, content: Any, key: str) -> Picked:
    if key:
        content = _at(file, content, key)
    everywhere = list(_places(file, content))
    masks = _sparsifier(everywhere)
    places = [place for place in everywhere if not place.path or TORCH_AO.mask_name(place.path[-1]) not in masks]
    if not places:
        raise LoadError(f"{file} {f'has at {key}' if key else 'holds'} {describe(content)}, and no weights by name.")
    largest = max(place.elements for place in places)
    # A loss or a step counter beside the weights is a tensor too.
    near = [place for place in places if 2 * place.elements >= largest]
    chosen = min(near, key=_preference)
    value = _value(chosen)
    if isinstance(value, Mapping):
        check_names(file, len(value), max(map(len, value), default=0))
    return Picked({**value, **masks} if isinstance(value, Mapping) else value, tuple(_notes(key, chosen, near)))


def _value(place: Place) -> Mapping[str, Inert] | Inert:
    if isinstance(place.value, Inert) and is_module(place.value):
        return place.value
    found: dict[str, Inert] = {}
    for name, value in entries(place.value):
        # Quantised modules have their weight and bias in one tuple.
        packed = isinstance(value, tuple) and len(value) <= PACKED
        parts = [(f"{name}.{i}", part) for i, part in enumerate(value)] if packed else [(name, value)]
        found |= {str(part): each for part, each in parts if is_tensor(each)}
    return found


def _sparsifier(places: list[Place]) -> dict[str, Inert]:
    """The masks of torch.ao.pruning, which are not in the model but in the state of its sparsifier."""
    found = {place.path[-1]: dict(entries(place.value)).get("mask") for place in places if "state" in place.path[-2:-1]}
    return {TORCH_AO.mask_name(name): mask for name, mask in found.items() if mask is not None and is_tensor(mask)}


def _preference(place: Place) -> tuple[bool, int, int]:
    last = place.path[-1] if place.path else ""
    averaged = any(AVERAGED.search(part) for part in place.path)
    return averaged, len(place.path), USUAL.index(last) if last in USUAL else len(USUAL)


def _notes(key: str, chosen: Place, near: list[Place]) -> Iterator[str]:
    full = ".".join(part for part in (key, chosen.key) if part)
    others = [".".join(part for part in (key, place.key) if part) for place in near if place is not chosen]
    if others:
        more = f"{', '.join(others[:4])}{' ...' if len(others) > 4 else ''}"
        yield f"the weights are those of {full}; the file has others too, which --key {others[0]} would take: {more}"
    elif chosen.path:
        yield f"the weights are those of {full}"


def _places(file: Path, content: Any) -> Iterator[Place]:
    """Every dictionary that holds tensors by name and every module, from the outside in. What is met again, by a
    shared reference or in a circle, is passed over."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), content)]
    seen: set[int] = set()
    modules, visited = extents(file), 0
    for path, value in pending:
        if id(value) in seen or len(seen) > MOST_PLACES or len(path) > 16:
            continue
        seen.add(id(value))
        if is_module(value):
            yield Place(path, value, modules.of(value).elements)
            continue
        inside = list(entries(value))
        visited += len(inside)
        if visited > MOST_ENTRIES:
            raise LoadError(f"{file} is refused: it holds far more entries than a file of its size does")
        if _is_optimizer(dict(inside)):
            continue
        named = [(name, each) for name, each in inside if isinstance(name, str)]
        sizes = [size_of(each) for _, each in named if is_tensor(each)]
        if sizes:
            yield Place(path, value, sum(sizes))
        pending += [((*path, name), each) for name, each in named if not is_tensor(each)]


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Of a dictionary, or of an object that is one (a defaultdict) or has attributes."""
    if isinstance(value, Inert):
        value = value.entries if isinstance(value.entries, dict) else value.state
    if isinstance(value, Mapping):
        yield from value.items()


def _is_optimizer(inside: Mapping[Any, Any]) -> bool:
    return "param_groups" in inside


def _at(file: Path, content: Any, key: str) -> Any:
    """The entry of that name; dots separate the steps, unless a name has them itself. The last step may also be what
    the names of a state_dict begin with."""
    inside = [(name, value) for name, value in entries(content) if isinstance(name, str)]
    for name, value in inside:
        if key == name:
            return value
        if key.startswith(f"{name}.") and not is_tensor(value):
            return _at(file, value, key.removeprefix(f"{name}."))
    below = {name.removeprefix(f"{key}."): value for name, value in inside if name.startswith(f"{key}.")}
    if below:
        return below
    there = ", ".join(name for name, _ in inside[:12]) + (" ..." if len(inside) > 12 else "")
    raise UsageError(f"--key: {file} has no {key}; {f'there is {there}' if there else 'there are no names'}")


def describe(content: Any) -> str:
    """What a file holds that has no weights."""
    if is_tensor(content):
        return "a single tensor without a name"
    if is_opaque(content):
        return (
            f"an object of {content.of}, which only its own code can read (--trust runs that, if you trust the file; "
            "or save its state_dict and name the model with --arch, or export it, where it was made)"
        )
    if isinstance(content, Mapping):
        return _describe_mapping(content)
    if isinstance(content, list | tuple):
        return f"a list of {len(content)} values"
    return f"nothing but a value of type {type(content).__name__}"


def _describe_mapping(content: Mapping[Any, Any]) -> str:
    if not content:
        return "an empty dictionary"
    if _is_optimizer(content) or any(isinstance(each, Mapping) and _is_optimizer(each) for each in content.values()):
        return "the state of an optimizer"
    if any(isinstance(value, Inert) and value.of.startswith("numpy.") for value in content.values()):
        return "arrays of numpy, where tensors should be"
    if any(is_tensor(value) for value in content.values()):
        kind = type(next(name for name, value in content.items() if is_tensor(value))).__name__
        return f"tensors under keys of type {kind}"
    named = ", ".join(str(name)[:40] for name in list(content)[:4])
    return f"a dictionary without tensors ({named}{' ...' if len(content) > 4 else ''})"
