"""ONNX files -> Graph, without torch. `read` is the front end; `ops/` holds the lowering table by operator family."""

from effsparse_cli.formats.onnx.model import read

__all__ = ["read"]
