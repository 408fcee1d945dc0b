"""module.c: the loops of numpy_loops.py. Results that have names there are plain here, for __init__.py to name."""

from effsparse_cli.kernel.bits import Words
from effsparse_cli.kernel.numpy_loops import Bytes
from effsparse_cli.kernel.numpy_loops import backward as backward
from effsparse_cli.kernel.numpy_loops import forward as forward
from effsparse_cli.kernel.numpy_loops import number as number
from effsparse_cli.kernel.numpy_loops import transpose as transpose
from effsparse_cli.kernel.structures import Geometry, MapNumbers

def pack(numbers: Bytes, words: Words, rows: int, item_size: int, ignore_sign: bool) -> tuple[int, int, int]: ...
def tally(
    words: Words, groups: int, width: int, source: Words | None, target: Words | None, missed: Words | None
) -> dict[str, int]: ...
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
) -> tuple[bytes | None, bytes | None, bool, dict[str, int]]: ...
