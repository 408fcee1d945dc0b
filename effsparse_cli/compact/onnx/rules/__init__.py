"""Rules by operator family; importing them fills the table."""

from effsparse_cli.compact.onnx.rules import (  # noqa: F401
    contraction,
    convolution,
    elementwise,
    movement,
    normalisation,
    reduction,
    selection,
)
from effsparse_cli.compact.onnx.table import RULES

__all__ = ["RULES"]
