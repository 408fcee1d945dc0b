"""A model file becomes a graph. The libraries that read it are imported only for files that need them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import kind

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph

__all__ = ["LoadOptions", "leaves_open", "load", "load_weights"]


def load(path: Path, options: LoadOptions) -> Graph:
    from effsparse_cli.formats.masks.kept import apply

    return apply(_read(path, options), options)


def leaves_open(path: Path, options: LoadOptions) -> bool:
    """Might the model leave sizes open that the options do not fix? Costs less than loading it."""
    if kind(path) == "onnx":
        from effsparse_cli.formats.onnx.model import leaves_open as onnx_leaves_open

        return onnx_leaves_open(path, options)
    from effsparse_cli.formats import torch

    return torch.leaves_open(path, options)


def load_weights(path: Path, options: LoadOptions) -> Graph:
    """The weights of a file without its graph: layers that are connected to nothing, for what can be said of them."""
    if kind(path) in ("onnx", "exported"):
        raise UsageError(
            f"{path} has a graph, so that its effective sparsity can be told too: leave --direct-only away"
        )
    from effsparse_cli.formats import torch
    from effsparse_cli.formats.masks.kept import apply

    return apply(torch.read_weights(path, options), options)


def _read(path: Path, options: LoadOptions) -> Graph:
    if kind(path) == "onnx":
        if options.arch or options.key:
            raise UsageError(f"{path} is an ONNX model, which has its own graph: leave --arch and --key away")
        from effsparse_cli.formats import onnx

        return onnx.read(path, options)
    from effsparse_cli.formats import torch

    return torch.read(path, options)
