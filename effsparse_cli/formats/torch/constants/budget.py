"""Limits on what evaluating the constants of one model may cost in memory and time, checked before each call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from effsparse_cli.errors import LoadError

BYTES, PER_BYTE = 1 << 29, 32
"""Memory that constants may take at a time: for any model, and per byte that it stores."""
WORK, PER_ELEMENT = 1 << 33, 1 << 12
"""Elementary steps in total: for any model, and per element that it stores."""
SECONDS, BYTES_PER_SECOND = 20.0, 5e6


class Budget:
    """The remaining budget for evaluating constants. `stored` is the size of the model's tensors in bytes."""

    def __init__(self, stored: int = 0) -> None:
        self.room = BYTES + PER_BYTE * stored
        self.work = WORK + PER_ELEMENT * stored
        self.seconds = SECONDS + stored / BYTES_PER_SECOND
        self._held: list[tuple[StorageWeakRef, int]] = []
        self._bytes = 0

    def spend(self, name: str, size: int, work: int) -> None:
        """Refuse a call that would need more than is left."""
        if self._bytes + size > self.room:
            self._held = [(ref, n) for ref, n in self._held if not ref.expired()]  # type: ignore[no-untyped-call]
            self._bytes = sum(n for _, n in self._held)
        if self._bytes + size > self.room or work > self.work or self.seconds <= 0:
            what = "memory" if self._bytes + size > self.room else "time"
            raise LoadError(
                f"computing the model's constants needs too much {what} for its size (stopped at {name}). "
                "Store them in the model instead of computing them."
            )
        self.work -= work

    def hold(self, tensors: Sequence[torch.Tensor]) -> None:
        """Count the memory of new tensors for as long as they exist."""
        for tensor in tensors:
            if tensor.layout == torch.strided and not tensor.is_meta:
                storage = tensor.untyped_storage()
                self._held.append((StorageWeakRef(storage), storage.nbytes()))  # type: ignore[no-untyped-call]
                self._bytes += storage.nbytes()
