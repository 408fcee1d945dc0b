"""Memory-mapped files: tensors are views of the map, and pages are released as soon as a scan has read them, so that a
checkpoint of any size needs the memory of one chunk."""

from __future__ import annotations

import mmap
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

CHUNK = 1 << 20
"""Bytes to read at a time; they fit into the processor's cache."""
# A private map that nobody writes to needs no memory, so none is reserved. Python names the flag since 3.12.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


@dataclass(frozen=True, eq=False)
class _Mapped:
    """The addresses of a map. Only its tensors hold a reference to it, so no address is used after it is freed."""

    path: Path
    start: int
    end: int
    content: weakref.ref[mmap.mmap]

    def release(self, start: int, end: int) -> None:
        """Release the pages between two addresses. They are read again from the file when they are needed."""
        content = self.content()
        if content is not None and hasattr(content, "madvise") and start < end:
            first = (start - self.start) // mmap.PAGESIZE * mmap.PAGESIZE
            content.madvise(mmap.MADV_DONTNEED, first, end - self.start - first)


_mapped: list[_Mapped] = []


def map_file(path: Path) -> mmap.mmap:
    """Map a whole file, which must not be empty. Writes to the map stay in memory and are lost with its pages: this
    package does not write, but user code that does must not crash."""
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


def find_file_offset(tensor: torch.Tensor) -> tuple[Path, int] | None:
    """Return the file of a mapped tensor and the offset of its first element."""
    known = _find(tensor)
    return None if known is None else (known.path, tensor.data_ptr() - known.start)


def iter_chunks(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield a contiguous tensor in flat chunks with their positions, releasing the pages of each before the next."""
    flat = tensor.reshape(-1)
    known = is_mapped(tensor)
    step = max(CHUNK // tensor.element_size(), 1)
    for at in range(0, tensor.numel(), step):
        chunk = flat[at : at + step]
        yield at, chunk
        if known:
            release(chunk)


def release(tensor: torch.Tensor) -> None:
    """Release the pages of a mapped tensor."""
    release_pages = find_release(tensor)
    if release_pages is not None and tensor.numel():
        span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
        release_pages(tensor.data_ptr(), tensor.data_ptr() + span * tensor.element_size())


def find_release(tensor: torch.Tensor) -> Callable[[int, int], None] | None:
    """Return a function that releases the pages of a mapped tensor between two addresses; None if it is not mapped."""
    known = _find(tensor)
    return None if known is None else known.release


def _find(tensor: torch.Tensor) -> _Mapped | None:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return None
    at = tensor.data_ptr()
    return next((known for known in _mapped if known.start <= at < known.end and known.content() is not None), None)
