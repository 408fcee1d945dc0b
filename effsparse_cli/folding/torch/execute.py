"""A live module or an exported program is repaired in place; when anything fails it is as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.results import Repaired
from effsparse_cli.folding.rounds import repair
from effsparse_cli.folding.torch.observe import run_apart
from effsparse_cli.folding.torch.subject import TorchModel
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import trace_live
from effsparse_cli.formats.torch.inputs.examples import example_inputs
from effsparse_cli.formats.torch.tracing.outputs import chosen, names
from effsparse_cli.formats.torch.tracing.preserve import plain_kernels, quiet, same_values, undisturbed
from effsparse_cli.formats.torch.tracing.trace import Input, Traced
from effsparse_cli.graph.primitives import Bools

Inputs = Sequence[torch.Tensor]
Run = Callable[[Inputs], list[torch.Tensor]]
Tensors = dict[str, torch.Tensor]
Masks = Mapping[str, Bools]


def repair_module(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    options: LoadOptions | None = None,
    count_embeddings: bool = False,
    add_biases: bool = True,
) -> Repaired:
    """A live module, in place. Without arguments the options' input shapes or inferred ones are used."""
    return repair_live(model, args, kwargs or {}, options or LoadOptions(), count_embeddings, add_biases)[0]


def repair_live(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: LoadOptions,
    count_embeddings: bool = False,
    add_biases: bool = True,
    start: Masks | None = None,
) -> tuple[Repaired, Tensors]:
    """The same with masks to apply first; gives the tensors that have changed too, by stored name."""
    return _repair(open_live(model, args, kwargs, options, add_biases), count_embeddings, start)


def open_live(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: LoadOptions,
    add_biases: bool = True,
) -> TorchModel:
    model = getattr(model, "_orig_mod", model)
    named, notes = dict(kwargs), tuple[str, ...]()
    if not args and not named:
        inputs = example_inputs(model, options)
        args, named, notes = inputs.args, dict(inputs.kwargs), inputs.notes
    flat, spec = tree_flatten((args, named))
    places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def run(drawn: Inputs) -> list[torch.Tensor]:
        filled = list(flat)
        for place, tensor in zip(places, drawn, strict=True):
            filled[place] = tensor
        given, keywords = tree_unflatten(filled, spec)
        with undisturbed(model), plain_kernels(), quiet(), same_values(model):
            values, shape = tree_flatten(model(*given, **keywords))
        return _counting(names(shape), values, options)

    def trace() -> Traced:
        return trace_live(model, args, named)

    examples = [flat[i] for i in places]
    return TorchModel(trace(), options, examples, _guarded(run), model, trace, notes, add_biases)


def repair_traced(
    traced: Traced, options: LoadOptions, count_embeddings: bool = False, start: Masks | None = None
) -> tuple[Repaired, Tensors]:
    """An exported program, of which only stored tensors can change: those that did, by name."""
    return _repair(open_traced(traced, options), count_embeddings, start)


def open_traced(traced: Traced, options: LoadOptions) -> TorchModel:
    def run(drawn: Inputs) -> list[torch.Tensor]:
        results, entered = run_apart(traced, drawn)
        return [*_counting(traced.outputs, results, options), *entered]

    return TorchModel(traced, options, [_example(node) for node in _inputs(traced)], _guarded(run))


def _guarded(run: Run) -> Run:
    """What a model raises when it is run is the model's fault, for example weights of a type that it cannot use."""

    def guarded(drawn: Inputs) -> list[torch.Tensor]:
        try:
            return run(drawn)
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            said = str(error).strip().partition("\n")[0]
            raise LoadError(f"the model cannot be run, so its outputs cannot be compared: {said}") from error

    return guarded


def _repair(subject: TorchModel, count_embeddings: bool, start: Masks | None) -> tuple[Repaired, Tensors]:
    try:
        done = repair(subject, count_embeddings, start)
    except BaseException:
        subject.undo()
        raise
    return done, {name: subject.traced.stored[name].detach() for name in subject.before}


def _counting(named: Sequence[str], values: Sequence[Any], options: LoadOptions) -> list[torch.Tensor]:
    """The outputs that the user asked for."""
    pairs = [(n, v) for n, v in zip(named, values, strict=True) if n and isinstance(v, torch.Tensor)]
    return [value for _, value in chosen(pairs, options.outputs)]


def _inputs(traced: Traced) -> list[fx.Node]:
    return [n for n in traced.graph.nodes if n.op == "placeholder" and isinstance(traced.leaves[n.name], Input)]


def _example(node: fx.Node) -> torch.Tensor:
    value = node.meta["val"]
    return torch.zeros(tuple(int(n) for n in value.shape), dtype=value.dtype)
