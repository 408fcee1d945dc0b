"""The names in a file against those of a module: what they have in front is taken off, and where the two then do not
come out even, it is said what is missing on both sides."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from effsparse_cli.formats.masks.conventions import without_container
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.weights import AVERAGED
from effsparse_cli.formats.torch.tracing.trace import stored_tensors

SHOWN = 6
DEEPEST_PREFIX = 3
COUNTERS = ("num_batches_tracked", "_extra_state")
"""Nothing is computed with them, and older files lack them."""
COMPILED = "_orig_mod."
"""What torch.compile puts into names, at the front and within."""


def renamed(checkpoint: Checkpoint, names: Mapping[str, str], notes: Sequence[str] = ()) -> Checkpoint:
    """What `names` leads from the file's to other names, and nothing else."""

    def held(table: Mapping[str, object]) -> dict[str, object]:
        return {names[name]: value for name, value in table.items() if name in names}

    tables = {name: held(getattr(checkpoint, name)) for name in ("tensors", "masks", "values")}
    return replace(checkpoint, **tables, notes=(*checkpoint.notes, *notes))  # type: ignore[arg-type]


def without_prefix(checkpoint: Checkpoint, module: nn.Module) -> Checkpoint:
    """Names without what the file has in front of the module's own (`module.`, `model.`). Behind such a prefix stands a
    whole model; what has another one is something else, such as a loss, and is left out."""
    plain = {name: name.replace(COMPILED, "") for name in checkpoint.tensors}
    tops = {name.partition(".")[0] for name in stored_tensors(module)}

    found: Counter[str] = Counter()
    for name in plain.values():
        for prefix in _prefixes(name):
            found[prefix] += name.removeprefix(prefix).partition(".")[0] in tops
    prefix = min(found, key=lambda each: (-found[each], AVERAGED.search(each) is not None, len(each)), default="")
    names = {name: new.removeprefix(prefix) for name, new in plain.items() if new.startswith(prefix)}
    names |= {name: mask for name, new in plain.items() if (mask := without_container(new)) is not None}
    aside = [name for name in plain if name not in names and not name.endswith(COUNTERS)]
    notes = [f"tensors that are not behind {prefix.rstrip('.')} are left out: {_some(aside)}"] if aside else []
    return renamed(checkpoint, names, notes)


def _prefixes(name: str) -> Iterator[str]:
    """What may stand in front of a name, dots included."""
    parts = name.split(".", DEEPEST_PREFIX + 1)
    yield from ("".join(f"{part}." for part in parts[:n]) for n in range(min(len(parts), DEEPEST_PREFIX + 1)))


def fit(checkpoint: Checkpoint, module: nn.Module, *, extra_is_fine: bool = False) -> tuple[Checkpoint, list[str]]:
    """What the module wants of the file, and what is wrong with it. With `extra_is_fine`, tensors of the file that the
    model does not have are only noted, provided that nothing else is wrong."""
    wanted, there = stored_tensors(module), checkpoint.tensors
    known = {id(tensor) for name, tensor in wanted.items() if name in there}
    missing = [n for n in wanted if n not in there and id(wanted[n]) not in known and not n.endswith(COUNTERS)]
    beside = set(_unstored(module))
    extra = [n for n in there if n not in wanted and n not in beside and not n.endswith(COUNTERS)]
    shapes = [
        f"{name} is {_dims(there[name])} in the file and {_dims(wanted[name])} in the model"
        for name in wanted
        if name in there and wanted[name].shape != there[name].shape
    ]
    notes = []
    if extra and extra_is_fine and not missing and not shapes:
        notes.append(f"{_count(extra)} of the file left out, which the model does not have: {_some(extra)}")
        extra = []
    return renamed(checkpoint, {n: n for n in there if n in wanted}, notes), list(_problems(missing, extra, shapes))


def _unstored(module: nn.Module) -> Iterator[str]:
    """Buffers that a state_dict leaves out, yet some files have."""
    for path, each in module.named_modules(remove_duplicate=False):
        yield from (f"{path}.{name}".lstrip(".") for name in each._non_persistent_buffers_set)


def _problems(missing: Sequence[str], extra: Sequence[str], shapes: Sequence[str]) -> Iterator[str]:
    if missing:
        yield f"the file lacks {_count(missing)} of the model: {_closest(missing, extra)}"
    if extra:
        yield f"the model lacks {_count(extra)} of the file: {_closest(extra, missing)}"
    if shapes:
        yield f"shapes differ: {'; '.join(shapes[:SHOWN])}{' ...' if len(shapes) > SHOWN else ''}"


def _closest(names: Sequence[str], others: Sequence[str]) -> str:
    """The first of the names, each with the nearest on the other side."""
    said = []
    for name in names[:SHOWN]:
        near = difflib.get_close_matches(name, others[:500], n=1, cutoff=0.6)
        said.append(f"{name} (closest: {near[0]})" if near else name)
    return ", ".join(said) + (" ..." if len(names) > SHOWN else "")


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}"


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:SHOWN])}{' ...' if len(names) > SHOWN else ''}"


def _dims(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
