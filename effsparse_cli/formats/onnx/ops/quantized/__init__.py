"""Quantized tensors: quantizers, operators on integers, packed weights."""

from effsparse_cli.formats.onnx.ops.quantized import linear, packed, qonnx  # noqa: F401
