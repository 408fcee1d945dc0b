"""Reads dense, sparse and external tensors as numpy arrays, after checking that the file has what they claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.external import is_external, read_bytes, section
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.graph.primitives import Shape

MOST_ELEMENTS = 1 << 33
"""Maximum number of elements of an array whose size only the file claims."""

PACKED_BITS = {
    TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    getattr(TensorProto, "UINT2", -1): 2,
    getattr(TensorProto, "INT2", -2): 2,
}


def dtype_of(tensor: TensorProto, model: Path) -> np.dtype[Any]:
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, TypeError, ValueError):
        raise LoadError(f"{model}: tensor {tensor.name!r} has the unknown data type {tensor.data_type}.") from None


def packed_size(tensor: TensorProto) -> int:
    """Return the number of bytes of the data; several elements of a few bits share one."""
    size = math.prod(int(n) for n in tensor.dims)
    if tensor.data_type in PACKED_BITS:
        return (size * PACKED_BITS[tensor.data_type] + 7) // 8
    return size * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def dense(tensor: TensorProto, model: Path) -> tuple[Shape, np.dtype[Any], Callable[[], Array]]:
    """Return shape, type and a function that reads the values. Sizes are checked now, without copying the data."""
    shape, dtype = _shape(tensor.dims, tensor.name, model), dtype_of(tensor, model)
    if dtype.kind in "OSU":
        if is_external(tensor) or len(tensor.string_data) != math.prod(shape):
            raise _short(tensor.name, model, shape)
        return shape, dtype, lambda: numpy_helper.to_array(tensor)
    size, expected = math.prod(shape), packed_size(tensor)
    if is_external(tensor):
        return shape, dtype, _external_reader(tensor, model, shape, dtype, expected)
    if tensor.HasField("raw_data"):
        # The size of the message is compared: getting the field itself would copy it.
        if tensor.ByteSize() < expected:
            raise _short(tensor.name, model, shape)
    elif size and tensor.ByteSize() * 8 < size:
        raise _short(tensor.name, model, shape)

    def read() -> Array:
        try:
            return numpy_helper.to_array(tensor).reshape(shape)
        except (ValueError, TypeError, RuntimeError):
            raise _short(tensor.name, model, shape) from None

    return shape, dtype, read


def _external_reader(
    tensor: TensorProto, model: Path, shape: Shape, dtype: np.dtype[Any], expected: int
) -> Callable[[], Array]:
    part = section(tensor, model, expected)

    def read() -> Array:
        raw = read_bytes(part, expected)
        if tensor.data_type not in PACKED_BITS:
            array = raw.view(dtype)
            # numpy is slow with unaligned arrays, slower than with a copy.
            return (array if array.flags.aligned else np.array(raw).view(dtype)).reshape(shape)
        inline = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=raw.tobytes())
        return numpy_helper.to_array(inline)

    return read


def sparse(tensor: SparseTensorProto, model: Path) -> tuple[Shape, np.dtype[Any], Callable[[], Array]]:
    """Read a sparse tensor as a dense one. Its indices are positions or coordinates, and must be in range."""
    name = tensor.values.name
    shape = _shape(tensor.dims, name, model)
    count, dtype, read_values = dense(tensor.values, model)
    index_shape, _, read_indices = dense(tensor.indices, model)
    if len(count) != 1 or index_shape not in (count, (*count, len(shape))):
        raise LoadError(f"{model}: the sparse tensor {name!r} has {count} values and indices of shape {index_shape}.")

    def read() -> Array:
        indices = read_indices().astype(np.int64)
        if indices.ndim == 2:
            sizes = np.asarray(shape, np.int64)
            if ((indices < 0) | (indices >= sizes)).any():
                raise _outside(name, model)
            indices = np.ravel_multi_index(tuple(indices.T), shape) if shape else np.zeros(count, np.int64)
        if ((indices < 0) | (indices >= math.prod(shape))).any():
            raise _outside(name, model)
        array = np.zeros(math.prod(shape), dtype)
        array[indices] = read_values()
        return array.reshape(shape)

    return shape, dtype, read


def _shape(dims: Any, name: str, model: Path) -> Shape:
    shape = tuple(int(n) for n in dims)
    if any(n < 0 for n in shape):
        raise LoadError(f"{model}: tensor {name!r} has a negative size in its shape {list(shape)}.")
    if math.prod(shape) > MOST_ELEMENTS:
        raise LoadError(f"{model}: tensor {name!r} has the shape {list(shape)}, which is too large to be measured.")
    return shape


def _short(name: str, model: Path, shape: Shape) -> LoadError:
    return LoadError(
        f"{model}: the data of tensor {name!r} does not fill its shape {list(shape)}. The file is damaged or truncated."
    )


def _outside(name: str, model: Path) -> LoadError:
    return LoadError(f"{model}: the sparse tensor {name!r} has indices outside its shape. The file is damaged.")
