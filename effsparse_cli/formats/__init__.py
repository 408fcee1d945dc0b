"""Model files: open any supported format, get its graph and tensors, write it back changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.formats.model_file import ModelFile, open_model_file
from effsparse_cli.formats.options import LoadOptions

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph

__all__ = ["LoadOptions", "ModelFile", "load", "open_model_file"]


def load(path: Path, options: LoadOptions) -> Graph:
    """Return the graph of a model file."""
    return open_model_file(path, options).graph()
