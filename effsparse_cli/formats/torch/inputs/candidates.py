"""Candidate shapes of an input, from the layers of its model, the most likely ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import nn

from effsparse_cli.graph.primitives import Shape

TOKENS = 8
"""Number of tokens, for a transformer or a recurrent layer."""
SIZES = (32, 224, 1024, 16384)


def candidate_shapes(model: nn.Module, name: str) -> list[Shape]:
    """Return shapes that the input of this name may have."""
    shapes: list[Shape] = [(1, TOKENS), (1,)] if is_index(name) or "mask" in name else []
    # A table of positions after strided convolutions fixes the length of the input, as in Whisper.
    tables = [layer.num_embeddings for layer in model.modules() if isinstance(layer, nn.Embedding)]
    lengths = [*SIZES, *(times * n for times in (1, 2, 4) for n in tables)]
    for layer in model.modules():
        shapes += _accepted_by(layer, lengths)
    return list(dict.fromkeys([*shapes, (1, TOKENS), (1,), (1, 1)]))


def is_index(name: str) -> bool:
    return name.endswith(("ids", "tokens", "indices"))


def _accepted_by(layer: nn.Module, lengths: Sequence[int]) -> Iterator[Shape]:
    """Yield shapes that a layer accepts."""
    match layer:
        case nn.Linear():
            yield from ((1, layer.in_features), (1, TOKENS, layer.in_features))
        case nn.Embedding():
            yield from ((1, TOKENS), (1,), (1, TOKENS, layer.embedding_dim))
        case nn.RNNBase():
            yield from ((1, TOKENS, layer.input_size), (TOKENS, 1, layer.input_size))
        case nn.MultiheadAttention():
            yield from ((1, TOKENS, layer.embed_dim), (TOKENS, 1, layer.embed_dim))
        case nn.Bilinear():
            yield from ((1, layer.in1_features), (1, layer.in2_features))
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            rank = len(layer.kernel_size)
            yield from ((1, layer.in_channels, *(n,) * rank) for n in lengths if n**rank <= 1 << 20)
