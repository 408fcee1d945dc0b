"""An ONNX model is compacted in memory: repaired, so that nothing dead is read any more, then cut, then compared with
the original. The smaller model and what was done leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from onnx import ModelProto, ValueInfoProto

from effsparse_cli.compaction.agree import agree
from effsparse_cli.compaction.measure import measure
from effsparse_cli.compaction.onnx.rewriting.standard_form import plain
from effsparse_cli.compaction.onnx.run import Feeds, run_apart
from effsparse_cli.compaction.onnx.shrink import cut
from effsparse_cli.compaction.results import Compaction
from effsparse_cli.errors import LoadError
from effsparse_cli.folding.onnx.run import draw
from effsparse_cli.folding.onnx.subject import OnnxModel
from effsparse_cli.folding.onnx.unknown import Apart, find_unknown
from effsparse_cli.folding.results import Repaired
from effsparse_cli.folding.rounds import repair
from effsparse_cli.folding.verify import SEEDS, Outputs, what_was_compared
from effsparse_cli.formats.onnx.proto.validity import malformed_is_load_error
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.primitives import Shape

Run = Callable[[Feeds], Outputs]
BLOCK = 16
"""Groups of a convolution that onnxruntime computes at once, on the widest of processors; with other numbers it takes a
way that is several times slower, so that a MobileNet would lose more by cutting than it gains."""


def compact_onnx(
    model: ModelProto, path: Path, options: LoadOptions, origin: Run | None = None
) -> tuple[ModelProto, Compaction]:
    """`path` is where external data is looked for. `origin` runs what the model was exported from, if that is the
    original."""
    with malformed_is_load_error(path, model):
        return _compact(model, path, options, origin)


def _compact(model: ModelProto, path: Path, options: LoadOptions, origin: Run | None) -> tuple[ModelProto, Compaction]:
    original = plain(model, path, options.outputs)
    subject = OnnxModel(_copy(original), path, options)
    repaired = repair(subject)
    base = plain(subject.model, path, options.outputs)
    apart = subject.apart
    drawn = [_drawn(base, apart, subject.shapes, subject.limits, seed) for seed in SEEDS]
    try:
        smaller = cut(base, drawn[0], block=BLOCK, apart=apart)
    except LoadError as error:
        if not apart.labels:
            raise
        guessed = ", ".join(f"{name} {list(shape)}" for name, shape in apart.shapes.items())
        raise LoadError(
            f"onnxruntime cannot run {', '.join(apart.labels)}, nor the rest of the model with results of the shapes "
            f"that were assumed ({guessed}). Declare the true shapes in the file (value_info)"
        ) from error
    old = [origin(feeds) for feeds in drawn] if origin is not None else run_apart(original, drawn, apart)
    notes = list(repair_notes(repaired))
    if smaller.kept.spare:
        notes.append(
            f"groups of convolutions kept beyond those in use: {smaller.kept.spare:,}, since onnxruntime is fast with "
            f"multiples of {BLOCK} only"
        )
    new = run_apart(smaller.model, drawn, apart)
    others = list(_other_shapes(original.graph.input, subject.shapes))
    for shapes in others:
        other = replace(find_unknown(original, shapes), idle=apart.idle)
        feeds = _drawn(base, other, shapes, subject.limits, SEEDS[0])
        try:
            expected = run_apart(original, [feeds], other)
        except LoadError:
            continue
        if not apart.labels:
            drawn.append(feeds)
        old += expected
        new += run_apart(smaller.model, [feeds], other)
        break
    else:
        if others:
            notes.append("sizes that the model leaves open were tried at one value only: it runs at no other")
    if apart.labels:
        notes.append(f"{what_was_compared(apart.labels, apart.known)}; the times leave them out")
    agreement = agree(old, new, subject.epsilon)
    done = measure(base, smaller, drawn[0], agreement, notes, apart)
    return smaller.model, replace(done, trials=tuple(zip(drawn, new, strict=False)), apart=apart)


def _drawn(model: ModelProto, apart: Apart, shapes: Mapping[str, Shape], limits: Mapping[str, int], seed: int) -> Feeds:
    return draw(apart.cut(model), {**shapes, **apart.shapes}, limits, seed)


def repair_notes(done: Repaired) -> Iterator[str]:
    if done.removed:
        yield f"{done.removed:,} inactive connections were removed first, {done.folded:,} of which carried a constant"
    for reason in dict.fromkeys(left.reason for left in done.left):
        some = [left for left in done.left if left.reason == reason]
        where = some[0].layer if len(some) == 1 else f"{len(some)} layers"
        yield f"{sum(left.connections for left in some):,} inactive connections of {where} stay: {reason}"


def _other_shapes(inputs: Sequence[ValueInfoProto], shapes: Mapping[str, Shape]) -> Iterator[dict[str, Shape]]:
    """The same inputs with every size that the file leaves open grown by one, or only their first."""
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


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy
