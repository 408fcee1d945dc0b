"""A model file becomes a graph. The libraries that read it are imported only for files that need them."""

from __future__ import annotations

from pathlib import Path

from effsparse_cli.graph.graph import Graph
from effsparse_cli.load.options import LoadOptions
from effsparse_cli.load.sniff import kind

__all__ = ["LoadOptions", "load"]


def load(path: Path, options: LoadOptions) -> Graph:
    if kind(path) == "onnx":
        from effsparse_cli.load import onnx

        return onnx.read(path, options)
    from effsparse_cli.load import torch

    return torch.read(path, options)
