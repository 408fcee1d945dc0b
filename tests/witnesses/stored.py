"""Witness 3 on stored tensors: change what a file stores, not the weight that an operator computes from it.

A model is pruned at random and analyzed. Stored weights of inactive connections (except bias carriers) are then changed
by several magnitudes, and no output may change by one bit. A failure is bisected to one connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper
from torch import Tensor, nn

from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.edges import Edges
from tests.formats.torch.perturbed import outputs as torch_outputs

MAGNITUDES = (1e-3, 0.7, 40.0, 3e3)
TRIED = 8
"""Number of active connections that are changed one at a time."""
WRAPPED = re.compile(r"(^|\.)parametrizations\.([^.]+)\.original[01]?$")

Array = NDArray[Any]


class MovedError(AssertionError):
    """An output changed when an inactive connection changed."""


@dataclass(frozen=True)
class Changes:
    """Elements of stored tensors: an index into `names`, a flat position, and the amount to add."""

    names: tuple[str, ...]
    which: Array
    where: Array
    amounts: Array

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, chosen: slice | Array) -> Changes:
        return Changes(self.names, self.which[chosen], self.where[chosen], self.amounts[chosen])

    def adding(self, amounts: Array) -> Changes:
        return Changes(self.names, self.which, self.where, amounts)

    def by_name(self) -> Iterator[tuple[str, Array, Array]]:
        for i in np.unique(self.which):
            there = self.which == i
            yield self.names[i], self.where[there], self.amounts[there]


Run = Callable[[Changes], list[Array]]


@dataclass(frozen=True)
class Subject:
    """The engine's result for each stored tensor, and the model's outputs after amounts were added to some elements.
    `elsewhere` gives the outputs for another input; `computed` are layers that no stored tensor holds."""

    found: Mapping[str, Edges]
    outputs: Run
    elsewhere: list[Array]
    computed: Sequence[str] = ()


@dataclass(frozen=True)
class Seen:
    inactive: int
    tried: int
    moved: int


def examine(subject: Subject, seed: int = 0) -> Seen:
    """Raise if a change of inactive connections changes an output; count active ones that do."""
    dice = np.random.default_rng(seed)
    inactive = places(subject.found, lambda e: e.mask("kept") & ~e.mask("active") & ~e.mask("carrier"))
    before = subject.outputs(inactive[:0])
    assert all(np.isfinite(a).all() for a in before if a.dtype.kind == "f"), "outputs not finite before any change"
    for magnitude in MAGNITUDES if len(inactive) else ():
        amounts = dice.choice([-1.0, 1.0], len(inactive)) * dice.uniform(0.5, 1.5, len(inactive)) * magnitude
        changes = inactive.adding(amounts)
        if not same(before, subject.outputs(changes)):
            raise MovedError(blame(subject, before, changes))
    active = places(subject.found, lambda e: e.mask("active"))
    if not len(active) and not same(before, subject.elsewhere):
        raise MovedError("no connection is active, but the outputs depend on the input")
    chosen = dice.permutation(len(active))[:TRIED]
    moved = sum(not same(before, subject.outputs(active[i : i + 1].adding(np.array([0.37])))) for i in chosen)
    return Seen(len(inactive), len(chosen), moved)


def blame(subject: Subject, before: list[Array], changes: Changes) -> str:
    """Halve the changes as long as a half still changes an output."""
    found = changes
    while len(found) > 1:
        halves = found[: len(found) // 2], found[len(found) // 2 :]
        moving = next((half for half in halves if not same(before, subject.outputs(half))), None)
        if moving is None:
            break
        found = moving
    after = subject.outputs(found)
    distance = max(float(np.abs(a - b).max()) for a, b in zip(before, after, strict=True) if a.size)
    name, position = found.names[found.which[0]], int(found.where[0])
    edges = subject.found[name]
    index = tuple(map(int, np.unravel_index(position, edges.mask("kept").shape)))
    ends = [kind for kind in ("no_input", "no_output", "both", "padding") if edges.mask(kind).reshape(-1)[position]]
    others = f" with {len(found) - 1} others" if len(found) > 1 else ""
    return (
        f"{name}{list(index)} is inactive ({', '.join(ends)}), but {found.amounts[0]:+.3g}{others} moves an output by "
        f"{distance:.3g} ({len(changes)} inactive connections in all)"
    )


def places(found: Mapping[str, Edges], mask: Callable[[Edges], Array]) -> Changes:
    """Return the elements of all tensors for which a mask of the edges is True."""
    there = [np.flatnonzero(mask(edges)) for edges in found.values()]
    which = np.repeat(np.arange(len(there)), [len(one) for one in there])
    where = np.concatenate([np.zeros(0, np.int64), *there])
    return Changes(tuple(found), which, where, np.zeros(len(where)))


def same(before: Sequence[Array], after: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def of_module(model: nn.Module, args: tuple[Tensor, ...]) -> Subject:
    """Test a live module in evaluation mode; its parameters and buffers are the stored tensors."""
    graph = from_module(model, args, None, LoadOptions())
    stored = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    names = torch_names(graph, stored)

    def outputs(changes: Changes) -> list[Array]:
        before = {}
        with torch.no_grad():
            for name, where, amounts in changes.by_name():
                before[name] = stored[name].detach().clone()
                added = torch.zeros(before[name].numel(), dtype=before[name].dtype)
                added[torch.from_numpy(where)] = torch.from_numpy(amounts).to(added.dtype)
                stored[name].add_(added.reshape(before[name].shape))
            found = [value.numpy().copy() for value in torch_outputs(model, args)]
            for name, value in before.items():
                stored[name].copy_(value)
        return found

    others = tuple(torch.randn_like(x) if x.is_floating_point() else x for x in args)
    return _subject(graph, names, outputs, [value.numpy() for value in torch_outputs(model, others)])


def torch_names(graph: Graph, stored: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the stored tensor of each layer: the one of its shape with its name, ignoring wrappers."""
    plain: dict[str, list[str]] = {}
    for name in stored:
        short = WRAPPED.sub(r"\1\2", name)
        spelled = {name, short, short.removesuffix("_orig"), short.removesuffix("_v")}
        for one in spelled | {spelling.removesuffix(".weight") for spelling in spelled}:
            plain.setdefault(one, []).append(name)
    fitting = {
        layer: [name for name in plain.get(layer, []) if tuple(stored[name].shape) == made.shape]
        for layer, made in graph.layers.items()
    }
    return {layer: names[0] for layer, names in fitting.items() if names}


def of_onnx(
    model: ModelProto, graph: Graph, run: Callable[[ModelProto], list[Array]], elsewhere: list[Array]
) -> Subject:
    """Test an ONNX model; its initializers and constants are the stored tensors, and `run` evaluates it."""
    labels = layer_names(model)
    stored = {labels[key]: key for key, tensor, _ in tensors(model) if isinstance(tensor, TensorProto)}

    def outputs(changes: Changes) -> list[Array]:
        return run(changed(model, changes))

    return _subject(graph, {name: name for name in graph.layers if name in stored}, outputs, elsewhere)


def changed(model: ModelProto, changes: Changes) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    labels = layer_names(copy)
    added = {name: (where, amounts) for name, where, amounts in changes.by_name()}
    for key, tensor, _ in tensors(copy):
        if labels[key] in added and isinstance(tensor, TensorProto):
            where, amounts = added[labels[key]]
            array = numpy_helper.to_array(tensor).copy()
            array.reshape(-1)[where] += amounts.astype(array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return copy


def _subject(graph: Graph, names: Mapping[str, str], outputs: Run, elsewhere: list[Array]) -> Subject:
    found = find_paths(graph)
    computed = [layer for layer in found if layer not in names]
    held = {names[layer]: edges for layer, edges in found.items() if layer in names}
    return Subject(held, outputs, elsewhere, computed)


def thin(model: nn.Module, args: tuple[Tensor, ...], seed: int = 0) -> None:
    """Redraw all parameters with zeros among the weights, biases, scales and statistics. Whole rows and columns are
    zero too, as long as the outputs stay finite (a row of zeros cannot be normalized)."""
    for rows, columns, density in (
        (0.25, 0.25, 0.5),
        (0.0, 0.25, 0.5),
        (0.0, 0.0, 0.5),
        (0.0, 0.0, 0.8),
        (0.0, 0.0, 1.0),
    ):
        dice = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                _draw(parameter, (rows, columns), density, dice)
            for name, buffer in model.named_buffers():
                if name.endswith(("running_mean", "running_var")):
                    drawn = torch.rand(buffer.shape, generator=dice) + 0.5
                    buffer.copy_(drawn if name.endswith("var") else (drawn - 1) * (drawn < 1.2))
        if all(value.isfinite().all() for value in torch_outputs(model, args) if value.is_floating_point()):
            return


def _draw(parameter: Tensor, cut: tuple[float, float], density: float, dice: torch.Generator) -> None:
    fan_in = max(parameter[0].numel(), 1) if parameter.ndim > 1 and len(parameter) else 1
    keep = torch.rand(parameter.shape, generator=dice) < (density if parameter.ndim > 1 else 0.7)
    drawn = torch.randn(parameter.shape, generator=dice) * (0.3 if parameter.ndim <= 1 else (3 / fan_in) ** 0.5)
    for axis, share in enumerate(cut if parameter.ndim > 1 else ()):
        shape = [-1 if i == axis else 1 for i in range(parameter.ndim)]
        keep = keep & (torch.rand(parameter.shape[axis], generator=dice) >= share).reshape(shape)
    parameter.copy_((drawn * keep).to(parameter.dtype))
