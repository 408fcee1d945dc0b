"""Files in memory without the memory: a file is mapped, tensors are views of the map, and the pages that a scan has
read are given back at once, so that a checkpoint of any size needs the memory of one piece of it."""

from __future__ import annotations

import mmap
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

PIECE = 1 << 20
"""Bytes that are read at a time: few enough to stay in a processor's cache while they are worked on."""
# Not reserved: a private map that nobody writes to takes no memory, however large. Python names the flag from 3.12 on.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


@dataclass(frozen=True, eq=False)
class _Mapped:
    """Where the map lies. It is held by its tensors alone, so that no address is used after it is gone."""

    path: Path
    start: int
    end: int
    content: weakref.ref[mmap.mmap]

    def give_back(self, start: int, end: int) -> None:
        """The pages between two addresses; they are read from the file again when they are needed."""
        content = self.content()
        if content is not None and hasattr(content, "madvise") and start < end:
            first = (start - self.start) // mmap.PAGESIZE * mmap.PAGESIZE
            content.madvise(mmap.MADV_DONTNEED, first, end - self.start - first)


_mapped: list[_Mapped] = []


def map_file(path: Path) -> mmap.mmap:
    """The whole file, which must not be empty. What is written to the map stays in memory and is lost with its pages:
    nobody here writes, but code of a user's that does must not crash."""
    with path.open("rb") as file:
        if sys.platform == "linux":
            flags, prot = mmap.MAP_PRIVATE | NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            content = mmap.mmap(file.fileno(), 0, flags=flags, prot=prot)
        else:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = torch.frombuffer(content, dtype=torch.uint8).data_ptr()
    _mapped[:] = [known for known in _mapped if known.content() is not None]
    _mapped.append(_Mapped(path, start, start + len(content), weakref.ref(content)))
    return content


def is_mapped(tensor: torch.Tensor) -> bool:
    return _find(tensor) is not None


def place_in_file(tensor: torch.Tensor) -> tuple[Path, int] | None:
    """The file of a mapped tensor, and where in it the tensor begins."""
    known = _find(tensor)
    return None if known is None else (known.path, tensor.data_ptr() - known.start)


def pieces(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """A contiguous tensor's elements, flat, one piece after another with its place; the pages of a piece are given
    back when the next one is asked for."""
    flat = tensor.reshape(-1)
    known = is_mapped(tensor)
    step = max(PIECE // tensor.element_size(), 1)
    for at in range(0, tensor.numel(), step):
        piece = flat[at : at + step]
        yield at, piece
        if known:
            release(piece)


def release(tensor: torch.Tensor) -> None:
    """Gives back the pages of a mapped tensor."""
    give_back = releasing(tensor)
    if give_back is not None and tensor.numel():
        span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
        give_back(tensor.data_ptr(), tensor.data_ptr() + span * tensor.element_size())


def releasing(tensor: torch.Tensor) -> Callable[[int, int], None] | None:
    """What gives back pages of the map that a tensor is a view of, from one address to another."""
    known = _find(tensor)
    return None if known is None else known.give_back


def _find(tensor: torch.Tensor) -> _Mapped | None:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return None
    at = tensor.data_ptr()
    return next((known for known in _mapped if known.start <= at < known.end and known.content() is not None), None)
