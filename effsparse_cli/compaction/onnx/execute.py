"""Compacts an ONNX model in memory: repairs it, so that nothing reads dead channels any more, removes them, and
compares the result with the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

from onnx import ModelProto, ValueInfoProto

from effsparse_cli.compaction.measure import measure
from effsparse_cli.compaction.onnx.run import Feeds, run_model
from effsparse_cli.compaction.onnx.shrink import shrink
from effsparse_cli.compaction.onnx.standard_form import to_standard_form
from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.errors import LoadError
from effsparse_cli.folding.onnx.model import OnnxModel
from effsparse_cli.folding.onnx.run import draw
from effsparse_cli.folding.onnx.unrunnable import find_unrunnable
from effsparse_cli.folding.results import RepairResult
from effsparse_cli.folding.rounds import repair
from effsparse_cli.folding.verify import SEEDS, Outputs, compare, describe_comparison
from effsparse_cli.formats.onnx.parse import malformed_is_load_error
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.primitives import Shape

Run = Callable[[Feeds], Outputs]
BLOCK = 16
"""Number of convolution groups that onnxruntime computes at once on CPUs with the widest registers. Other numbers of
groups take a code path that is several times slower: a MobileNet would lose more than it gains."""


def compact_onnx(
    model: ModelProto, path: Path, options: LoadOptions, origin: Run | None = None
) -> tuple[ModelProto, CompactResult]:
    """Return the smaller model and what was achieved. `path` locates external data. `origin` runs the model that this
    one was exported from, if there is one."""
    with malformed_is_load_error(path, model):
        return _compact(model, path, options, origin)


def _compact(
    model: ModelProto, path: Path, options: LoadOptions, origin: Run | None
) -> tuple[ModelProto, CompactResult]:
    original = to_standard_form(model, path, options.outputs)
    subject = OnnxModel(deepcopy(original), path, options)
    repaired = repair(subject)
    base = to_standard_form(subject.model, path, options.outputs)
    unrunnable = subject.unrunnable
    draw_base = partial(draw, base, limits=subject.limits)
    drawn = [draw_base(unrunnable, shapes=subject.shapes, seed=seed) for seed in SEEDS]
    try:
        smaller = shrink(base, drawn[0], block=BLOCK, unrunnable=unrunnable)
    except LoadError as error:
        if not unrunnable.labels:
            raise
        guessed = ", ".join(f"{name} {list(shape)}" for name, shape in unrunnable.shapes.items())
        raise LoadError(
            f"onnxruntime cannot run {', '.join(unrunnable.labels)}, nor the rest of the model with the result shapes "
            f"that were assumed ({guessed}). Declare the true shapes in the file (value_info)"
        ) from error
    old = [origin(feeds) for feeds in drawn] if origin is not None else run_model(original, drawn, unrunnable)
    notes = list(repair_notes(repaired))
    if smaller.kept.spare:
        notes.append(
            f"{smaller.kept.spare:,} unused groups of convolutions were kept, since onnxruntime is fast only with "
            f"multiples of {BLOCK}"
        )
    new = run_model(smaller.model, drawn, unrunnable)
    others = list(_other_shapes(original.graph.input, subject.shapes))
    for shapes in others:
        other = replace(find_unrunnable(original, shapes), idle=unrunnable.idle)
        feeds = draw_base(other, shapes=shapes, seed=SEEDS[0])
        try:
            expected = run_model(original, [feeds], other)
        except LoadError:
            continue
        if not unrunnable.labels:
            drawn.append(feeds)
        old += expected
        new += run_model(smaller.model, [feeds], other)
        break
    else:
        if others:
            notes.append("open dimensions were tried with one size only: the model does not run with others")
    if unrunnable.labels:
        notes.append(f"{describe_comparison(unrunnable.labels, unrunnable.lowered)}; the latencies do not include them")
    agreement = compare(old, new, subject.epsilon, "smaller")
    done = measure(base, smaller, drawn[0], agreement, notes, unrunnable)
    return smaller.model, replace(done, trials=tuple(zip(drawn, new, strict=False)), unrunnable=unrunnable)


def repair_notes(done: RepairResult) -> Iterator[str]:
    if done.removed:
        yield f"{done.removed:,} inactive connections were removed first, {done.folded:,} of which carried a constant"
    for reason in dict.fromkeys(left.reason for left in done.left):
        some = [left for left in done.left if left.reason == reason]
        where = some[0].layer if len(some) == 1 else f"{len(some)} layers"
        yield f"{sum(left.connections for left in some):,} inactive connections of {where} are kept: {reason}"


def _other_shapes(inputs: Sequence[ValueInfoProto], shapes: Mapping[str, Shape]) -> Iterator[dict[str, Shape]]:
    """Yield input shapes with every open dimension larger by one, then with only the first axes larger."""
    for only_first in (False, True):
        other = dict(shapes)
        for value in inputs:
            if value.name in shapes:
                dims = value.type.tensor_type.shape.dim
                grows = [
                    not dim.HasField("dim_value") and (axis == 0 or not only_first) for axis, dim in enumerate(dims)
                ]
                other[value.name] = tuple(n + g for n, g in zip(shapes[value.name], grows, strict=False))
        if other != dict(shapes):
            yield other
