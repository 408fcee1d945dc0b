"""Experiments in tests use one thread, so that results are the same to the last bit and several tests can run at once.
Files are not synced to the disk: that is slow, and matters only if the power fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from effsparse_cli.formats.writing import atomic


@pytest.fixture(autouse=True)
def _one_thread_and_no_syncing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(atomic, "_sync", lambda path: None)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
