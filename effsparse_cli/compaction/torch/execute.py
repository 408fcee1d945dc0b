"""PyTorch models are compacted: as ONNX models, or as smaller modules. The model that enters is left as it was."""

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
from effsparse_cli.compaction.torch.called import Called
from effsparse_cli.compaction.torch.export import program_to_onnx, to_onnx
from effsparse_cli.compaction.torch.surgery import shrink
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
from effsparse_cli.formats.torch.files.exported import ExportedFile
from effsparse_cli.formats.torch.lowering.lower import lower_traced
from effsparse_cli.formats.torch.pt2.parse import described_by
from effsparse_cli.formats.torch.tensors import numbers
from effsparse_cli.formats.torch.tracing.trace import stored_tensors

Kwargs = Mapping[str, Any]
NOWHERE = Path("exported.onnx")
"""An exported model holds all of its data."""


def module_to_onnx(model: nn.Module, options: LoadOptions) -> tuple[ModelProto, CompactResult]:
    called = Called(model, (), None, options)
    whole = to_onnx(model, called.args, called.kwargs)

    def origin(feeds: Feeds) -> Outputs:
        return _arrays(called.run(model, _tensors(feeds, called.examples)))

    # The exported model has the shapes already, and its outputs in the same order.
    found, done = compact_onnx(whole, NOWHERE, LoadOptions(outputs=tuple(map(str, called.places))), origin)
    return found, replace(done, notes=(*called.notes, *done.notes))


def program_to_smaller_onnx(file: ExportedFile) -> tuple[ModelProto, CompactResult]:
    traced, options = file.traced(), file.options

    def origin(feeds: Feeds) -> Outputs:
        tensors = [torch.from_numpy(array) for array in feeds.values()]
        pairs = zip(traced.outputs, run_traced(traced, tensors)[0], strict=True)
        return _arrays([value for name, value in pairs if name and isinstance(value, torch.Tensor)])

    with described_by(file.path):
        lower_traced(traced, options)  # before torch computes anything: what is too large is refused here
    whole = program_to_onnx(file.for_torch())
    return compact_onnx(whole, NOWHERE, replace(options, dims={}), None if options.outputs else origin)


def compact_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs | None, options: LoadOptions
) -> tuple[nn.Module, CompactResult]:
    """A smaller copy."""
    called = Called(model, args, kwargs, options)
    small = _copied(model)
    repaired = repair_module(small, called.args, called.kwargs, options)
    base = to_standard_form(
        to_onnx(small, called.args, called.kwargs, faithful=True), NOWHERE, tuple(map(str, called.places))
    )
    shapes = {v.name: tuple(t.shape) for v, t in zip(base.graph.input, called.examples, strict=True)}
    limits = table_sizes(Wiring(base, Store(NOWHERE, layer_names(base))))
    unrunnable = find_unrunnable(base, shapes)
    drawn = [draw(unrunnable.remove_from(base), {**shapes, **unrunnable.shapes}, limits, seed) for seed in SEEDS]
    smaller = shrink_onnx(base, drawn[0], may_rewire=False, unrunnable=unrunnable)
    shrink(small, smaller)
    inputs = [_tensors({name: feeds[name] for name in shapes}, called.examples) for feeds in drawn]
    old = [_arrays(called.run(model, tensors)) for tensors in inputs]
    agreement = agree(old, [_arrays(_tried(called, small, tensors)) for tensors in inputs], _epsilon(model))
    notes = [*called.notes, *repair_notes(repaired)]
    if unrunnable.labels:
        notes.append(f"the times leave out {', '.join(unrunnable.labels)}, which onnxruntime cannot run")
    done = measure(base, smaller, drawn[0], agreement, notes, unrunnable)
    before, after = (replace(sums, bytes=_bytes(m)) for sums, m in ((done.before, model), (done.after, small)))
    return small, replace(done, before=before, after=after)


def _copied(model: nn.Module) -> nn.Module:
    """torch copies no tensor that was computed, such as the product that a pruning hook left behind."""
    held = [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]
    return copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in held if not tensor.is_leaf})


def _epsilon(model: nn.Module) -> float:
    types = {t.dtype for t in stored_tensors(model).values() if t.is_floating_point() and t.dtype.itemsize > 1}
    return max((torch.finfo(dtype).eps for dtype in types), default=torch.finfo(torch.float32).eps)


def _bytes(model: nn.Module) -> int:
    """Of what it stores, each tensor once."""
    return sum(tensor.nbytes for tensor in {id(t): t for t in stored_tensors(model).values()}.values())


def _tried(called: Called, small: nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    try:
        return called.run(small, inputs)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(
            "the module does not run any more once channels are cut from its tensors: its code has their sizes in it "
            f"({lines[0][:200] if lines else type(error).__name__}). Write ONNX instead, whose graph is rewritten: "
            "-o FILE.onnx"
        ) from error


def _tensors(feeds: Feeds, examples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.from_numpy(array).to(t.device, t.dtype) for array, t in zip(feeds.values(), examples, strict=True)]


def _arrays(tensors: Sequence[torch.Tensor]) -> Outputs:
    return [numbers(tensor) for tensor in tensors]
