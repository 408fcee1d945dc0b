"""Measure the effect of compaction: sizes of layers, and bytes, multiplications and latency of the whole model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx import ModelProto

from effsparse_cli.compaction.onnx.run import ALL_RUNNABLE, Feeds, latency
from effsparse_cli.compaction.onnx.shrink import ShrunkModel
from effsparse_cli.compaction.positions import Work
from effsparse_cli.compaction.results import CompactResult, LayerChange, Sums
from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators
from effsparse_cli.folding.verify import Agreement
from effsparse_cli.formats.onnx.tensors.names import layer_names


def measure(
    base: ModelProto,
    smaller: ShrunkModel,
    feeds: Feeds,
    agreement: Agreement,
    notes: Sequence[str] = (),
    unrunnable: UnrunnableOperators = ALL_RUNNABLE,
) -> CompactResult:
    """Compare the model before (`base`) and after compaction. `feeds` are inputs of the shapes that count. Operators
    that cannot be run are not timed."""
    works = smaller.survey.facts.works
    old_time, new_time = latency([unrunnable.remove_from(base), unrunnable.remove_from(smaller.model)], feeds)
    return CompactResult(
        layers=_layers(base, smaller),
        before=Sums(base.ByteSize(), sum(map(_before, works)), old_time),
        after=Sums(smaller.model.ByteSize(), sum(_after(work, smaller) for work in works), new_time),
        difference=agreement.difference,
        scale=agreement.scale,
        input_shapes={name: array.shape for name, array in feeds.items() if name not in unrunnable.results},
        unknown=smaller.survey.unknown,
        notes=tuple(notes),
    )


def _layers(base: ModelProto, smaller: ShrunkModel) -> tuple[LayerChange, ...]:
    names = {str(key[0]): name for key, name in layer_names(base).items() if len(key) == 1}
    users: dict[str, list[Work]] = {}
    for work in smaller.survey.facts.works:
        if work.stored is not None:
            users.setdefault(work.stored, []).append(work)
    return tuple(_layer(stored, names, works, smaller) for stored, works in users.items())


def _layer(stored: str, names: Mapping[str, str], works: list[Work], smaller: ShrunkModel) -> LayerChange:
    axes = smaller.survey.values[stored].axes
    return LayerChange(
        names.get(stored, stored),
        tuple(len(ids) for ids in axes),
        tuple(smaller.kept.count(ids) for ids in axes),
        sum(map(_before, works)),
        sum(_after(work, smaller) for work in works),
    )


def _before(work: Work) -> int:
    return work.factor * math.prod(len(ids) for ids in work.axes)


def _after(work: Work, smaller: ShrunkModel) -> int:
    return work.factor * math.prod(smaller.kept.count(ids) for ids in work.axes)
