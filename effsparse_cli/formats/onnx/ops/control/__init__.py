"""Control flow and sequences: branches, loops, scans, lists of values."""

from effsparse_cli.formats.onnx.ops.control import branches, loops, scan, sequence  # noqa: F401
