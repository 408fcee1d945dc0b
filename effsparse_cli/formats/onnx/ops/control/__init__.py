"""Control flow and sequences: branches, loops, scans, lists of values."""

from effsparse_cli.formats.onnx.ops.control import loops, sequence, subgraphs  # noqa: F401
