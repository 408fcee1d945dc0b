"""One file per family of aten operators; importing them fills the table."""

from effsparse_cli.formats.torch.ops import (
    attention,
    contract,
    convolve,
    einsum,
    elementwise,
    indexing,
    lookup,
    movement,
    norms,
    pooling,
    recurrent,
    reductions,
    resize,
    scatter,
)

__all__ = [
    "attention",
    "contract",
    "convolve",
    "einsum",
    "elementwise",
    "indexing",
    "lookup",
    "movement",
    "norms",
    "pooling",
    "recurrent",
    "reductions",
    "resize",
    "scatter",
]
