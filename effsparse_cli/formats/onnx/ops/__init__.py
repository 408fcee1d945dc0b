"""The operators by family. Importing this package fills the table of operators."""

from effsparse_cli.formats.onnx.operators import OPERATORS, find_operator
from effsparse_cli.formats.onnx.ops import (  # noqa: F401
    attention,
    contraction,
    control,
    convolution,
    elementwise,
    generators,
    indexing,
    microsoft,
    movement,
    norm,
    opaque,
    quantized,
    recurrent,
    reduction,
    resize,
    signal,
    slicing,
)

__all__ = ["OPERATORS", "find_operator"]
