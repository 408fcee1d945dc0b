"""Turns whatever a malformed file causes into a LoadError. A failure on a file that is valid stays a bug of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto

from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.formats.onnx.external import is_external
from effsparse_cli.formats.onnx.shapes.inference import explosive


@contextmanager
def malformed_is_load_error(path: Path, model: ModelProto | None = None) -> Iterator[None]:
    """Wrap code that reads a file; `model` is its content, once parsed."""
    try:
        yield
    except EffsparseError:
        raise
    except MemoryError:
        raise LoadError(f"{path}: not enough memory to load it.") from None
    except RecursionError:
        raise LoadError(f"{path}: nested too deeply.") from None
    except Exception:
        fault = _fault(model) if model is not None else ""
        if not fault:
            raise
        raise LoadError(f"{path} is not a valid ONNX model: {fault}. Export it again.") from None


def _fault(model: ModelProto) -> str:
    """Return what onnx's checker says about a model; "" if it is valid."""
    light = ModelProto()
    light.CopyFrom(model)
    for tensor in light.graph.initializer:
        _empty(tensor)
    for sparse in light.graph.sparse_initializer:
        _empty(sparse.values)
    context = onnx.checker.C.CheckerContext()
    context.ir_version = light.ir_version
    context.opset_imports = {opset.domain: opset.version for opset in light.opset_import}
    try:
        for node in light.graph.node:  # one by one first: an error about a node says most
            onnx.checker.check_node(node, context)
        onnx.checker.check_model(light)
        if not explosive(light):
            onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except Exception as error:  # the checker's errors have no common class
        return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return ""


def _empty(tensor: TensorProto) -> None:
    """Replace a tensor with external data, which the checker would look for, by an empty one."""
    if is_external(tensor):
        tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))
