"""ONNX files, without torch: parse, lower to a graph, write. `ops/` holds the lowering table by operator family."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.formats.options import LoadOptions
    from effsparse_cli.graph.graph import Graph


def read(path: Path, options: LoadOptions) -> Graph:
    """Return the graph of an ONNX file."""
    from effsparse_cli.formats.onnx.model_file import OnnxFile

    return OnnxFile(path, options).graph()
