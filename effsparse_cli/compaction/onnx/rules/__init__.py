"""Rules by operator family; importing them fills the table."""

from effsparse_cli.compaction.onnx.rules import (  # noqa: F401
    contraction,
    convolution,
    elementwise,
    movement,
    normalisation,
    reduction,
    selection,
)
from effsparse_cli.compaction.onnx.table import RULES

__all__ = ["RULES"]
