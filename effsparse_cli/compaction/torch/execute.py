"""Compact PyTorch models: to ONNX models, or to smaller modules. The original is not changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from onnx import ModelProto
from torch import nn

from effsparse_cli.compaction.measure import measure
from effsparse_cli.compaction.onnx.execute import compact_onnx, repair_notes
from effsparse_cli.compaction.onnx.run import Feeds
from effsparse_cli.compaction.onnx.shrink import shrink as shrink_onnx
from effsparse_cli.compaction.onnx.standard_form import to_standard_form
from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.compaction.torch.export import program_to_onnx, to_onnx
from effsparse_cli.compaction.torch.shrink import shrink_module
from effsparse_cli.errors import UsageError, first_line
from effsparse_cli.folding.onnx.run import draw, table_sizes
from effsparse_cli.folding.onnx.unrunnable import find_unrunnable
from effsparse_cli.folding.onnx.wiring import Wiring
from effsparse_cli.folding.torch.execute import repair_module
from effsparse_cli.folding.torch.run import ModuleCall, choose_inputs, named_tensors, run_traced
from effsparse_cli.folding.verify import SEEDS, Outputs, compare
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.checkpoint.content import EXPORT_AGAIN, damage_on_error
from effsparse_cli.formats.torch.files.exported import ExportedFile
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.remove_masks import remove_masks
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.formats.torch.tracing.trace import select_outputs, stored_tensors

Kwargs = Mapping[str, Any]
NOWHERE = Path("exported.onnx")
"""The path of a model in memory, which has no external data."""


def module_to_onnx(model: nn.Module, options: LoadOptions) -> tuple[ModelProto, CompactResult]:
    inputs = choose_inputs(model, (), None, options)
    call = ModuleCall(inputs)
    selected = _select_outputs(call, model, options.outputs)
    whole = to_onnx(model, inputs.args, inputs.kwargs)

    def origin(feeds: Feeds) -> Outputs:
        return _run(call, model, _tensors(feeds, call.examples), selected)

    # The exported model has the shapes already, and its outputs in the same order.
    found, done = compact_onnx(whole, NOWHERE, LoadOptions(outputs=tuple(map(str, selected))), origin)
    return found, replace(done, notes=(*inputs.notes, *done.notes))


def program_to_smaller_onnx(file: ExportedFile) -> tuple[ModelProto, CompactResult]:
    traced, options = file.traced(), file.options

    def origin(feeds: Feeds) -> Outputs:
        tensors = [torch.from_numpy(array) for array in feeds.values()]
        return [numbers(value) for _, value in named_tensors(traced.outputs, run_traced(traced, tensors)[0])]

    with damage_on_error(file.path, EXPORT_AGAIN):
        lower_traced(traced, options)  # refuses models that are too large before torch computes anything
    whole = program_to_onnx(file.for_torch())
    return compact_onnx(whole, NOWHERE, replace(options, dims={}), None if options.outputs else origin)


def compact_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs | None, options: LoadOptions
) -> tuple[nn.Module, CompactResult]:
    """Return a smaller copy of a module, with plain dense parameters, and what was done."""
    inputs = choose_inputs(model, args, kwargs, options)
    call = ModuleCall(inputs)
    selected = _select_outputs(call, model, options.outputs)
    small = _copy(model)
    remove_masks(small)
    repaired = repair_module(small, inputs.args, inputs.kwargs, options)
    whole = to_onnx(small, inputs.args, inputs.kwargs, faithful=True)
    base = to_standard_form(whole, NOWHERE, tuple(map(str, selected)))
    shapes = {v.name: tuple(t.shape) for v, t in zip(base.graph.input, call.examples, strict=True)}
    limits = table_sizes(Wiring(base, Store(NOWHERE, layer_names(base))))
    unrunnable = find_unrunnable(base, shapes)
    drawn = [draw(base, unrunnable, shapes=shapes, limits=limits, seed=seed) for seed in SEEDS]
    smaller = shrink_onnx(base, drawn[0], may_rewire=False, unrunnable=unrunnable)
    kept = shrink_module(small, smaller)
    tensors = [_tensors({name: feeds[name] for name in shapes}, call.examples) for feeds in drawn]
    old = [_run(call, model, each, selected) for each in tensors]
    try:
        new = [_run(call, small, each, selected) for each in tensors]
    except Exception as error:
        raise UsageError(
            "the module no longer runs after channels were removed from its tensors, because its code contains their "
            f"sizes ({first_line(error, 200)}). Write ONNX instead: -o FILE.onnx"
        ) from error
    agreement = compare(old, new, _epsilon(model), "smaller")
    notes = [*inputs.notes, *repair_notes(repaired)]
    if unrunnable.labels:
        notes.append(f"the times do not include {', '.join(unrunnable.labels)}, which onnxruntime cannot run")
    done = measure(base, smaller, drawn[0], agreement, notes, unrunnable)
    before, after = (replace(sums, bytes=_bytes(m)) for sums, m in ((done.before, model), (done.after, small)))
    return small, replace(done, before=before, after=after, kept=kept)


def _copy(model: nn.Module) -> nn.Module:
    """Copy a module, also computed tensors such as the product of a pruning hook, which torch refuses to copy."""
    held = [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]
    return copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in held if not tensor.is_leaf})


def _epsilon(model: nn.Module) -> float:
    types = {t.dtype for t in stored_tensors(model).values() if t.is_floating_point() and t.dtype.itemsize > 1}
    return max((torch.finfo(dtype).eps for dtype in types), default=torch.finfo(torch.float32).eps)


def _bytes(model: nn.Module) -> int:
    """Return the bytes of all stored tensors, shared ones once."""
    return sum(tensor.nbytes for tensor in {id(t): t for t in stored_tensors(model).values()}.values())


def _select_outputs(call: ModuleCall, model: nn.Module, wanted: Sequence[str]) -> list[int]:
    """Return the positions of the selected outputs among all outputs that are tensors."""
    try:
        outputs = call.outputs(model, call.examples)
    except Exception as error:
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in call.examples)
        reason = first_line(error)
        raise UsageError(f"the model does not run on input {shapes}: {reason}. Check --input-shape.") from error
    return [position for _, position in select_outputs([(name, i) for i, (name, _) in enumerate(outputs)], wanted)]


def _run(call: ModuleCall, model: nn.Module, inputs: Sequence[torch.Tensor], selected: Sequence[int]) -> Outputs:
    outputs = call.outputs(model, inputs)
    return [numbers(outputs[i][1]) for i in selected]


def _tensors(feeds: Feeds, examples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.from_numpy(array).to(t.device, t.dtype) for array, t in zip(feeds.values(), examples, strict=True)]
