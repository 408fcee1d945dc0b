"""Repair live modules, exported programs and the modules of files, in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from effsparse_cli.errors import LoadError, first_line
from effsparse_cli.folding.results import RepairResult
from effsparse_cli.folding.rounds import repair
from effsparse_cli.folding.torch.model import TorchModel
from effsparse_cli.folding.torch.run import ModuleCall, choose_inputs, input_nodes, named_tensors, run_traced
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import trace_live
from effsparse_cli.formats.torch.files.torch_file import TorchFile
from effsparse_cli.formats.torch.inputs import Inputs, example_inputs
from effsparse_cli.formats.torch.tracing.trace import TracedModel, select_outputs

Drawn = Sequence[torch.Tensor]
Run = Callable[[Drawn], list[torch.Tensor]]


def repair_module(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    options: LoadOptions | None = None,
    count_embeddings: bool = False,
    add_biases: bool = True,
) -> RepairResult:
    """Repair a live module in place. Without arguments the options' input shapes or inferred ones are used."""
    model, options = getattr(model, "_orig_mod", model), options or LoadOptions()
    subject = open_live(model, choose_inputs(model, args, kwargs, options), options, add_biases=add_biases)
    try:
        return repair(subject, count_embeddings)
    except BaseException:
        subject.undo()
        raise


def open_file(file: TorchFile) -> TorchModel:
    """Return the module of a file. A checkpoint has no room for a bias that its model does not have."""
    if file.holds_module:
        inputs, traced = file.trace()
        return open_live(file.traced_module(), inputs, file.options, traced=traced)
    model, options = file.module(), file.module_options()
    return open_live(model, example_inputs(model, options), options, add_biases=False)


def open_live(
    model: nn.Module,
    inputs: Inputs,
    options: LoadOptions,
    *,
    traced: TracedModel | None = None,
    add_biases: bool = True,
) -> TorchModel:
    call = ModuleCall(inputs)

    def trace() -> TracedModel:
        return trace_live(model, inputs.args, dict(inputs.kwargs))

    return TorchModel(
        traced or trace(),
        options,
        call.examples,
        _guarded(lambda drawn: _select(call.outputs(model, drawn), options)),
        model=model,
        retrace=trace,
        notes=inputs.notes,
        add_biases=add_biases,
    )


def open_traced(traced: TracedModel, options: LoadOptions) -> TorchModel:
    """Return an exported program, of which only stored tensors can change."""

    def run(drawn: Drawn) -> list[torch.Tensor]:
        results, unknown_inputs = run_traced(traced, drawn)
        return [*_select(named_tensors(traced.outputs, results), options), *unknown_inputs]

    values = [node.meta["val"] for node in input_nodes(traced)]
    examples = [torch.zeros(tuple(map(int, value.shape)), dtype=value.dtype) for value in values]
    return TorchModel(traced, options, examples, _guarded(run))


def _guarded(run: Run) -> Run:
    """Turn what a model raises when it is run into a LoadError: its weights may have a type that it cannot use."""

    def guarded(drawn: Drawn) -> list[torch.Tensor]:
        try:
            return run(drawn)
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            problem = f"the model cannot be run, so its outputs cannot be compared: {first_line(error)}"
            raise LoadError(problem) from error

    return guarded


def _select(outputs: Sequence[tuple[str, torch.Tensor]], options: LoadOptions) -> list[torch.Tensor]:
    return [value for _, value in select_outputs(outputs, options.outputs)]
