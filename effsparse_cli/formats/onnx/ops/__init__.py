"""The lowering table, filled: importing this package registers every operator family."""

from effsparse_cli.formats.onnx.ops import (  # noqa: F401
    attention,
    contraction,
    control,
    convolution,
    elementwise,
    indexing,
    integer,
    loops,
    microsoft,
    movement,
    norm,
    opaque,
    packed,
    pooling,
    qonnx,
    quantised,
    random,
    recurrent,
    reduction,
    resize,
    sampling,
    scan,
    scatter,
    sequence,
    signal,
    slicing,
)
from effsparse_cli.formats.onnx.table import TABLE

__all__ = ["TABLE"]
