"""The operators by family. Importing this package fills the table of operators."""

from effsparse_cli.formats.onnx.operators import OPERATORS, find_operator
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

__all__ = ["OPERATORS", "find_operator"]
