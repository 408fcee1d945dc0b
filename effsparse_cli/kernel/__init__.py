"""The loops over every bit: in C if the extension could be compiled, else in numpy, with the same results.
`numpy_loops` specifies each of them."""

from __future__ import annotations

from effsparse_cli.kernel import numpy_loops
from effsparse_cli.kernel.bits import Words
from effsparse_cli.kernel.numpy_loops import Bytes
from effsparse_cli.kernel.structures import Geometry, MapNumbers, Meeting, Packed, Tally

try:
    from effsparse_cli.kernel import compiled

    COMPILED = True
except ImportError:
    COMPILED = False

if COMPILED:
    backward, forward = compiled.backward, compiled.forward
    number, transpose = compiled.number, compiled.transpose

    def pack(numbers: Bytes, words: Words, rows: int, item_size: int, ignore_sign: bool) -> Packed:
        return Packed(*compiled.pack(numbers, words, rows, item_size, ignore_sign))

    def tally(
        words: Words, groups: int, width: int, source: Words | None, target: Words | None, missed: Words | None
    ) -> Tally:
        return Tally(**compiled.tally(words, groups, width, source, target, missed))

    def meet(
        words: Words,
        groups: int,
        channels: int,
        x: MapNumbers | None,
        x_maps: Words | None,
        y: MapNumbers | None,
        y_maps: Words | None,
        missed: Words,
        geometry: Geometry,
    ) -> Meeting:
        met = compiled.meet(words, groups, channels, x, x_maps, y, y_maps, missed, geometry)
        source, target, has_missed, counts = met
        return Meeting(source, target, has_missed, Tally(**counts))
else:
    backward, forward = numpy_loops.backward, numpy_loops.forward
    number, transpose = numpy_loops.number, numpy_loops.transpose
    pack, tally, meet = numpy_loops.pack, numpy_loops.tally, numpy_loops.meet
