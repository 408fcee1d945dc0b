"""Make the tensors that a pickle describes, as views of the storages in the file. Each must be within its storage, and
all of them together within a limit for the size of the file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import LoadError, first_line
from effsparse_cli.formats.torch.checkpoint.pickle.inert import DTYPES, Inert, StorageRef, dtype_of
from effsparse_cli.formats.torch.checkpoint.storage import MAX_RATIO

Memory = Callable[[StorageRef], torch.Tensor]
LAYOUTS = {str(each): each for each in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)}
MAX_AXES, MAX_ARGUMENTS, MAX_DEPTH = 64, 16, 16
MAX_SIZE = 1 << 62
ROOM = 32 << 20
"""Bytes that tensors may need beyond MAX_RATIO times the file: a few values can describe a large sparse tensor."""
MIN_ITEMSIZE = 4
"""Bytes per element: narrow types are computed with as float32."""
BY_NAME = {str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


class TensorReader:
    """Makes the tensors of one file. A description that occurs twice gives the same tensor, and each storage is read
    once. With `writable`, a tensor whose elements overlap is copied."""

    def __init__(self, path: Path, memory: Memory, writable: bool = False) -> None:
        self.path = path
        self.memory = memory
        self.storages: dict[str, torch.UntypedStorage] = {}
        self.made: dict[int, torch.Tensor] = {}
        self.writable = writable
        self.left = MAX_RATIO * path.stat().st_size + ROOM

    def read(self, described: Inert) -> torch.Tensor:
        if id(described) not in self.made:
            if len(described.args) > MAX_ARGUMENTS:
                raise LoadError(f"{self.path} is damaged: a tensor has too many arguments. Download it again.")
            try:
                with warnings.catch_warnings():
                    # torch warns about beta layouts and deprecated quantised types, which the user cannot change.
                    warnings.simplefilter("ignore")
                    self.made[id(described)] = MAKERS[described.of](self, *described.args)
            except LoadError:
                raise
            except Exception as error:
                problem = f"{self.path} is damaged: a tensor is invalid ({first_line(error, 200)}). Download it again."
                raise LoadError(problem) from error
        return self.made[id(described)]

    def reserve(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        """Count the dense size of a tensor: a few bytes can describe terabytes."""
        self.left -= math.prod(shape) * max(dtype.itemsize, MIN_ITEMSIZE)
        if self.left < 0:
            raise LoadError(
                f"{self.path} is refused: its tensors would need over {MAX_RATIO} times the size of the file."
            )

    def strided(
        self, ref: StorageRef, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        sizes = (offset, *shape, *stride)
        if len(shape) != len(stride) or not all(type(n) is int and 0 <= n < MAX_SIZE for n in sizes):
            raise LoadError(f"{self.path} is damaged: a tensor has impossible sizes. Download it again.")
        if ref.key not in self.storages:
            self.storages[ref.key] = self.memory(ref).untyped_storage()
        storage = self.storages[ref.key]
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if math.prod(shape) else -1
        if (last + 1) * dtype.itemsize > storage.nbytes():
            raise LoadError(f"{self.path} is damaged: a tensor is larger than its storage. Download it again.")
        self.reserve(shape, dtype)
        if last < 0:
            return torch.empty(shape, dtype=dtype)
        made = torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
        return made.contiguous() if self.writable and last - offset + 1 < made.numel() else made


def is_tensor(value: object) -> bool:
    return isinstance(value, Inert) and value.of in MAKERS


def size_of(described: Inert) -> int:
    """Return the number of elements from the description; nothing is read."""
    for _ in range(MAX_DEPTH):
        if len(described.args) > MAX_ARGUMENTS:
            break
        inner = next((arg for arg in described.args if is_tensor(arg)), None)
        if inner is None:
            return _count_elements(described)
        described = inner
    raise ValueError("a tensor has too many arguments")


def _count_elements(described: Inert) -> int:
    # The sizes are the third argument; for a sparse tensor, the last part.
    if described.of in SPARSE:
        parts = [part for part in described.args[1][:MAX_ARGUMENTS] if not is_tensor(part)]
    else:
        parts = [*described.args[2:3]]
    return math.prod(n for n in _as_sizes(parts[0] if parts else ()) if isinstance(n, int) and n < MAX_SIZE)


def _typed(reader: TensorReader, ref: StorageRef, offset: int, shape: Any, stride: Any, *_: Any) -> torch.Tensor:
    return reader.strided(ref, offset, tuple(_as_sizes(shape)), tuple(_as_sizes(stride)), dtype_of(ref, reader.path))


def _untyped(
    reader: TensorReader, ref: StorageRef, offset: int, shape: Any, stride: Any, _: Any, __: Any, dtype: Any, *___: Any
) -> torch.Tensor:
    return reader.strided(ref, offset, tuple(_as_sizes(shape)), tuple(_as_sizes(stride)), BY_NAME[dtype.of])


def _wrapped(reader: TensorReader, data: Inert, *_: Any) -> torch.Tensor:
    return reader.read(data)


def _sparse(reader: TensorReader, layout: Inert, parts: tuple[Any, ...]) -> torch.Tensor:
    """Make a sparse tensor. Indices are checked, because torch would follow forged ones out of bounds."""
    if len(parts) > MAX_ARGUMENTS:
        raise ValueError("a tensor has too many parts")
    name, tensors = layout.args[0], [reader.read(part) for part in parts if is_tensor(part)]
    build: Any = torch.sparse_coo_tensor if name == "torch.sparse_coo" else torch.sparse_compressed_tensor
    shape = tuple(_as_sizes(next(part for part in parts if not is_tensor(part))))
    reader.reserve(shape, tensors[-1].dtype)
    if name == "torch.sparse_coo":
        return build(*tensors, shape, check_invariants=True).coalesce()  # type: ignore[no-any-return]
    return build(*tensors, shape, layout=LAYOUTS[name], check_invariants=True)  # type: ignore[no-any-return]


def _quantised(
    reader: TensorReader, ref: StorageRef, offset: int, shape: Any, stride: Any, parameters: tuple[Any, ...], *_: Any
) -> torch.Tensor:
    """Make a quantised tensor from its integers; it cannot be a view of a storage."""
    dtype = DTYPES[ref.type]
    integer = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[dtype]
    integers = reader.strided(ref, offset, tuple(_as_sizes(shape)), tuple(_as_sizes(stride)), integer)
    scheme, scales, zeros, *axis = parameters
    if scheme.of == "torch.per_tensor_affine":
        return torch._make_per_tensor_quantized_tensor(integers, float(scales), int(zeros))
    return torch._make_per_channel_quantized_tensor(integers, reader.read(scales), reader.read(zeros), int(axis[0]))


def _meta(reader: TensorReader, *_: Any) -> torch.Tensor:
    raise LoadError(
        f"{reader.path} contains tensors on the meta device, which have no values. Save the model after loading its "
        "weights."
    )


def _of_type(reader: TensorReader, rebuild: Any, _: Any, args: tuple[Any, ...], *__: Any) -> torch.Tensor:
    """Make a tensor with attributes or of a subclass of torch.Tensor: only its values."""
    name = getattr(rebuild, "of", "")
    if name not in MAKERS:
        raise LoadError(f"{reader.path} contains a tensor that cannot be read as data ({name}). Save regular tensors.")
    return MAKERS[name](reader, *args)


def _unreadable(reader: TensorReader, *args: Any) -> torch.Tensor:
    kind = next((getattr(arg, "of", "") for arg in args if getattr(arg, "of", "")), "a custom class")
    raise LoadError(
        f"{reader.path} contains a tensor that cannot be read as data ({kind}). Save regular tensors, or let the file "
        "run its code with --trust."
    )


def _as_sizes(shape: Any) -> Sequence[int]:
    """Return the sizes in a tuple or a torch.Size."""
    found = shape.args[0] if isinstance(shape, Inert) else shape
    if isinstance(found, tuple | list) and len(found) > MAX_AXES:
        raise ValueError(f"a tensor has {len(found):,} axes")
    return found if isinstance(found, tuple | list) else ()


PARAMETERS = (
    "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state", "torch.nn.parameter.Parameter",
)  # fmt: skip
WRAPPED = (*PARAMETERS, "torch.nn.parameter.Buffer", "torch._utils._rebuild_device_tensor_from_cpu_tensor")
SPARSE = ("torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_sparse_csr_tensor")
MAKERS: dict[str, Callable[..., torch.Tensor]] = {
    "torch._utils._rebuild_tensor": _typed,
    "torch._utils._rebuild_tensor_v2": _typed,
    "torch._utils._rebuild_tensor_v3": _untyped,
    **dict.fromkeys(WRAPPED, _wrapped),
    **dict.fromkeys(SPARSE, _sparse),
    "torch._utils._rebuild_qtensor": _quantised,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch._utils._rebuild_wrapper_subclass": _unreadable,
    "torch._utils._rebuild_device_tensor_from_numpy": _unreadable,
    "torch._utils._rebuild_nested_tensor": _unreadable,
}
