"""One file per family of aten operators; importing them fills the table."""

from effsparse_cli.formats.torch.ops import (  # noqa: F401
    attention,
    contraction,
    convolution,
    einsum,
    elementwise,
    evaluated,
    indexing,
    lookup,
    movement,
    norm,
    pooling,
    recurrent,
    reduction,
    resize,
    scatter,
)
