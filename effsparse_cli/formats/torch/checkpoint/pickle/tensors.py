"""The tensors that a pickle describes, made as views of the file's memory: each within the memory that it names, all
of them together within what a file of its size may hold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert, StorageRef
from effsparse_cli.formats.torch.checkpoint.storage.archive import INFLATED
from effsparse_cli.formats.torch.checkpoint.storage.dtypes import DTYPES, dtype_of

Memory = Callable[[StorageRef], torch.Tensor]
LAYOUTS = {
    "torch.sparse_csr": torch.sparse_csr,
    "torch.sparse_csc": torch.sparse_csc,
    "torch.sparse_bsr": torch.sparse_bsr,
    "torch.sparse_bsc": torch.sparse_bsc,
}
MOST_AXES, MOST_ARGUMENTS, DEEPEST = 64, 16, 16
LARGEST = 1 << 62
ROOM = 32 << 20
"""Bytes that tensors may take beyond INFLATED times the file: a few numbers can stand for a large sparse one."""
WRITTEN_OUT = 4
"""Bytes of an element at the least: narrow types are computed with as float32."""
BY_NAME = {str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


class Tensors:
    """Makes tensors of one file. One that stands under two names is one tensor, and memory is read once. `writable`:
    a tensor whose elements share memory with each other gets memory of its own."""

    def __init__(self, path: Path, memory: Memory, writable: bool = False) -> None:
        self.path = path
        self.memory = memory
        self.storages: dict[str, torch.UntypedStorage] = {}
        self.made: dict[int, torch.Tensor] = {}
        self.writable = writable
        self.left = INFLATED * path.stat().st_size + ROOM

    def make(self, described: Inert) -> torch.Tensor:
        if id(described) not in self.made:
            if len(described.args) > MOST_ARGUMENTS:
                raise LoadError(f"{self.path} is damaged: a tensor in it is described by too much")
            try:
                with warnings.catch_warnings():
                    # torch calls some layouts a beta, and quantised types outdated: nothing that a reader could change.
                    warnings.simplefilter("ignore")
                    self.made[id(described)] = MAKERS[described.of](self, *described.args)
            except LoadError:
                raise
            except Exception as error:
                reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
                raise LoadError(f"{self.path} is damaged: a tensor in it makes no sense ({reason})") from error
        return self.made[id(described)]

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        """Counts what a tensor is when it is written out: one of a few bytes can stand for terabytes."""
        self.left -= math.prod(shape) * max(dtype.itemsize, WRITTEN_OUT)
        if self.left < 0:
            raise LoadError(
                f"{self.path} is refused: written out, its tensors are over {INFLATED} times as large as the file"
            )

    def strided(
        self, ref: StorageRef, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        if not all(type(n) is int and 0 <= n < LARGEST for n in (offset, *shape, *stride)) or len(shape) != len(stride):
            raise LoadError(f"{self.path} is damaged: a tensor in it has impossible sizes")
        if ref.key not in self.storages:
            self.storages[ref.key] = self.memory(ref).untyped_storage()
        storage = self.storages[ref.key]
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if math.prod(shape) else -1
        if (last + 1) * dtype.itemsize > storage.nbytes():
            raise LoadError(f"{self.path} is damaged: a tensor in it reaches beyond its memory")
        self.take(shape, dtype)
        if last < 0:
            return torch.empty(shape, dtype=dtype)
        made = torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
        return made.contiguous() if self.writable and last - offset + 1 < made.numel() else made


def is_tensor(value: object) -> bool:
    return isinstance(value, Inert) and value.of in MAKERS


def size_of(described: Inert) -> int:
    """How many elements, as it says itself; nothing is read."""
    for _ in range(DEEPEST):
        if len(described.args) > MOST_ARGUMENTS:
            break
        inner = next((arg for arg in described.args if is_tensor(arg)), None)
        if inner is None:
            return _elements(described)
        described = inner
    raise ValueError("a tensor that is described by too much")


def _elements(described: Inert) -> int:
    # The sizes are the third argument, of a sparse tensor the last of its parts.
    if described.of in SPARSE:
        parts = [part for part in described.args[1][:MOST_ARGUMENTS] if not is_tensor(part)]
    else:
        parts = [*described.args[2:3]]
    return math.prod(n for n in _plain(parts[0] if parts else ()) if isinstance(n, int) and n < LARGEST)


def _typed(made: Tensors, ref: StorageRef, offset: int, shape: Any, stride: Any, *_: Any) -> torch.Tensor:
    return made.strided(ref, offset, tuple(_plain(shape)), tuple(_plain(stride)), dtype_of(ref, made.path))


def _untyped(
    made: Tensors, ref: StorageRef, offset: int, shape: Any, stride: Any, _: Any, __: Any, dtype: Any, *___: Any
) -> torch.Tensor:
    return made.strided(ref, offset, tuple(_plain(shape)), tuple(_plain(stride)), BY_NAME[dtype.of])


def _wrapped(made: Tensors, data: Inert, *_: Any) -> torch.Tensor:
    return made.make(data)


def _sparse(made: Tensors, layout: Inert, parts: tuple[Any, ...]) -> torch.Tensor:
    """Indices are checked against the shape: torch itself would follow forged ones out of bounds."""
    if len(parts) > MOST_ARGUMENTS:
        raise ValueError("a tensor of too many parts")
    name, tensors = layout.args[0], [made.make(part) for part in parts if is_tensor(part)]
    build: Any = torch.sparse_coo_tensor if name == "torch.sparse_coo" else torch.sparse_compressed_tensor
    shape = tuple(_plain(next(part for part in parts if not is_tensor(part))))
    made.take(shape, tensors[-1].dtype)
    if name == "torch.sparse_coo":
        return build(*tensors, shape, check_invariants=True).coalesce()  # type: ignore[no-any-return]
    return build(*tensors, shape, layout=LAYOUTS[name], check_invariants=True)  # type: ignore[no-any-return]


def _quantised(
    made: Tensors, ref: StorageRef, offset: int, shape: Any, stride: Any, parameters: tuple[Any, ...], *_: Any
) -> torch.Tensor:
    """Built anew from its integers, since a quantised tensor cannot be laid over memory."""
    dtype = DTYPES[ref.type]
    plain = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[dtype]
    integers = made.strided(ref, offset, tuple(_plain(shape)), tuple(_plain(stride)), plain)
    scheme, scales, zeros, *axis = parameters
    if scheme.of == "torch.per_tensor_affine":
        return torch._make_per_tensor_quantized_tensor(integers, float(scales), int(zeros))
    return torch._make_per_channel_quantized_tensor(integers, made.make(scales), made.make(zeros), int(axis[0]))


def _meta(made: Tensors, *_: Any) -> torch.Tensor:
    raise LoadError(
        f"{made.path} holds tensors on the meta device, which have shapes and no numbers. Save the model after its "
        "weights were loaded."
    )


def _of_type(made: Tensors, rebuild: Any, _: Any, args: tuple[Any, ...], *__: Any) -> torch.Tensor:
    """A tensor with attributes of its own, or of a class made from torch.Tensor: its numbers."""
    name = getattr(rebuild, "of", "")
    if name not in MAKERS:
        raise LoadError(f"{made.path} holds a tensor of a kind that cannot be read as data ({name})")
    return MAKERS[name](made, *args)


def _unreadable(made: Tensors, *args: Any) -> torch.Tensor:
    kind = next((getattr(arg, "of", "") for arg in args if getattr(arg, "of", "")), "a class of its own")
    raise LoadError(
        f"{made.path} holds a tensor of a kind that cannot be read as data ({kind}). Save plain tensors, or let the "
        "file run its own code with --trust."
    )


def _plain(shape: Any) -> Sequence[int]:
    """torch.Size is a tuple by another name."""
    found = shape.args[0] if isinstance(shape, Inert) else shape
    if isinstance(found, tuple | list) and len(found) > MOST_AXES:
        raise ValueError(f"a tensor of {len(found):,} axes")
    return found if isinstance(found, tuple | list) else ()


SPARSE = ("torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_sparse_csr_tensor")
MAKERS: dict[str, Callable[..., torch.Tensor]] = {
    "torch._utils._rebuild_tensor": _typed,
    "torch._utils._rebuild_tensor_v2": _typed,
    "torch._utils._rebuild_tensor_v3": _untyped,
    "torch._utils._rebuild_parameter": _wrapped,
    "torch._utils._rebuild_parameter_with_state": _wrapped,
    "torch.nn.parameter.Parameter": _wrapped,
    "torch.nn.parameter.Buffer": _wrapped,
    **dict.fromkeys(SPARSE, _sparse),
    "torch._utils._rebuild_qtensor": _quantised,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch._utils._rebuild_wrapper_subclass": _unreadable,
    "torch._utils._rebuild_device_tensor_from_numpy": _unreadable,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _wrapped,
    "torch._utils._rebuild_nested_tensor": _unreadable,
}
