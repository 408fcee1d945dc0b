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

from effsparse_cli.compaction.agree import agree
from effsparse_cli.compaction.measure import measure
from effsparse_cli.compaction.onnx.execute import compact_onnx, repair_notes
from effsparse_cli.compaction.onnx.rewriting.standard_form import to_standard_form
from effsparse_cli.compaction.onnx.run import Feeds
from effsparse_cli.compaction.onnx.shrink import shrink as shrink_onnx
from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.compaction.torch.export import program_to_onnx, to_onnx
from effsparse_cli.compaction.torch.module_call import ModuleCall
from effsparse_cli.compaction.torch.shrink import shrink_module
from effsparse_cli.errors import UsageError
from effsparse_cli.folding.onnx.run import draw, table_sizes
from effsparse_cli.folding.onnx.unrunnable import find_unrunnable
from effsparse_cli.folding.onnx.wiring import Wiring
from effsparse_cli.folding.torch.execute import repair_module
from effsparse_cli.folding.torch.run import run_traced
from effsparse_cli.folding.verify import SEEDS, Outputs
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.checkpoint.content import EXPORT_AGAIN, damage_on_error
from effsparse_cli.formats.torch.files.exported import ExportedFile
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.formats.torch.tracing.trace import stored_tensors

Kwargs = Mapping[str, Any]
NOWHERE = Path("exported.onnx")
"""The path of a model in memory, which has no external data."""


def module_to_onnx(model: nn.Module, options: LoadOptions) -> tuple[ModelProto, CompactResult]:
    call = ModuleCall(model, (), None, options)
    whole = to_onnx(model, call.args, call.kwargs)

    def origin(feeds: Feeds) -> Outputs:
        return _arrays(call.run(model, _tensors(feeds, call.examples)))

    # The exported model has the shapes already, and its outputs in the same order.
    found, done = compact_onnx(whole, NOWHERE, LoadOptions(outputs=tuple(map(str, call.selected))), origin)
    return found, replace(done, notes=(*call.notes, *done.notes))


def program_to_smaller_onnx(file: ExportedFile) -> tuple[ModelProto, CompactResult]:
    traced, options = file.traced(), file.options

    def origin(feeds: Feeds) -> Outputs:
        tensors = [torch.from_numpy(array) for array in feeds.values()]
        pairs = zip(traced.outputs, run_traced(traced, tensors)[0], strict=True)
        return _arrays([value for name, value in pairs if name and isinstance(value, torch.Tensor)])

    with damage_on_error(file.path, EXPORT_AGAIN):
        lower_traced(traced, options)  # refuses models that are too large before torch computes anything
    whole = program_to_onnx(file.for_torch())
    return compact_onnx(whole, NOWHERE, replace(options, dims={}), None if options.outputs else origin)


def compact_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs | None, options: LoadOptions
) -> tuple[nn.Module, CompactResult]:
    """Return a smaller copy of a module, and what was done."""
    call = ModuleCall(model, args, kwargs, options)
    small = _copy(model)
    repaired = repair_module(small, call.args, call.kwargs, options)
    base = to_standard_form(
        to_onnx(small, call.args, call.kwargs, faithful=True), NOWHERE, tuple(map(str, call.selected))
    )
    shapes = {v.name: tuple(t.shape) for v, t in zip(base.graph.input, call.examples, strict=True)}
    limits = table_sizes(Wiring(base, Store(NOWHERE, layer_names(base))))
    unrunnable = find_unrunnable(base, shapes)
    drawn = [draw(unrunnable.remove_from(base), {**shapes, **unrunnable.shapes}, limits, seed) for seed in SEEDS]
    smaller = shrink_onnx(base, drawn[0], may_rewire=False, unrunnable=unrunnable)
    shrink_module(small, smaller)
    inputs = [_tensors({name: feeds[name] for name in shapes}, call.examples) for feeds in drawn]
    old = [_arrays(call.run(model, tensors)) for tensors in inputs]
    agreement = agree(old, [_arrays(_run_shrunk(call, small, tensors)) for tensors in inputs], _epsilon(model))
    notes = [*call.notes, *repair_notes(repaired)]
    if unrunnable.labels:
        notes.append(f"the times do not include {', '.join(unrunnable.labels)}, which onnxruntime cannot run")
    done = measure(base, smaller, drawn[0], agreement, notes, unrunnable)
    before, after = (replace(sums, bytes=_bytes(m)) for sums, m in ((done.before, model), (done.after, small)))
    return small, replace(done, before=before, after=after)


def _copy(model: nn.Module) -> nn.Module:
    """Copy a module, with tensors that were computed, such as the product of a pruning hook, which torch refuses to
    copy."""
    held = [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]
    return copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in held if not tensor.is_leaf})


def _epsilon(model: nn.Module) -> float:
    types = {t.dtype for t in stored_tensors(model).values() if t.is_floating_point() and t.dtype.itemsize > 1}
    return max((torch.finfo(dtype).eps for dtype in types), default=torch.finfo(torch.float32).eps)


def _bytes(model: nn.Module) -> int:
    """Return the bytes of all stored tensors, shared ones once."""
    return sum(tensor.nbytes for tensor in {id(t): t for t in stored_tensors(model).values()}.values())


def _run_shrunk(call: ModuleCall, small: nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    try:
        return call.run(small, inputs)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(
            "the module no longer runs after channels were removed from its tensors, because its code contains their "
            f"sizes ({lines[0][:200] if lines else type(error).__name__}). Write ONNX instead: -o FILE.onnx"
        ) from error


def _tensors(feeds: Feeds, examples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.from_numpy(array).to(t.device, t.dtype) for array, t in zip(feeds.values(), examples, strict=True)]


def _arrays(tensors: Sequence[torch.Tensor]) -> Outputs:
    return [numbers(tensor) for tensor in tensors]
