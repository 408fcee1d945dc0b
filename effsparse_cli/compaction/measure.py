"""A cut model and the one it was cut from enter, the numbers that say what that brought leave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx import ModelProto

from effsparse_cli.compaction.onnx.run import WHOLE, Feeds, latency
from effsparse_cli.compaction.onnx.shrink import Smaller
from effsparse_cli.compaction.positions import Work
from effsparse_cli.compaction.results import Compaction, LayerChange, Sums
from effsparse_cli.folding.onnx.unknown import Apart
from effsparse_cli.folding.verify import Agreement
from effsparse_cli.formats.onnx.tensors.names import layer_names


def measure(
    base: ModelProto,
    smaller: Smaller,
    feeds: Feeds,
    agreement: Agreement,
    notes: Sequence[str] = (),
    apart: Apart = WHOLE,
) -> Compaction:
    """`base` is what was cut; `feeds` are of the shapes that count. Operators that cannot be run are not timed."""
    works = smaller.survey.facts.works
    old_time, new_time = latency([apart.cut(base), apart.cut(smaller.model)], feeds)
    return Compaction(
        _layers(base, smaller),
        Sums(base.ByteSize(), sum(map(_before, works)), old_time),
        Sums(smaller.model.ByteSize(), sum(_after(work, smaller) for work in works), new_time),
        agreement.difference,
        agreement.scale,
        {name: array.shape for name, array in feeds.items() if name not in apart.writes},
        smaller.survey.unknown,
        tuple(notes),
    )


def _layers(base: ModelProto, smaller: Smaller) -> tuple[LayerChange, ...]:
    names = {str(key[0]): name for key, name in layer_names(base).items() if len(key) == 1}
    users: dict[str, list[Work]] = {}
    for work in smaller.survey.facts.works:
        if work.stored is not None:
            users.setdefault(work.stored, []).append(work)
    return tuple(_layer(stored, names, works, smaller) for stored, works in users.items())


def _layer(stored: str, names: Mapping[str, str], works: list[Work], smaller: Smaller) -> LayerChange:
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


def _after(work: Work, smaller: Smaller) -> int:
    return work.factor * math.prod(smaller.kept.count(ids) for ids in work.axes)
