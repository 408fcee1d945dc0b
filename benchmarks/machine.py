"""The machine that the numbers come from, and its free memory."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from effsparse_cli import kernel


@dataclass(frozen=True)
class Machine:
    """`load` is the mean number of running processes in the minute before, near 0 on an idle machine."""

    date: str
    processor: str
    cores: int
    gib: float
    python: str
    numpy: str
    torch: str
    load: float
    kernel: str


def machine() -> Machine:
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        processor=_field("/proc/cpuinfo", "model name") or platform.machine(),
        cores=os.cpu_count() or 1,
        gib=_gib("MemTotal"),
        python=platform.python_version(),
        numpy=np.__version__,
        torch=torch.__version__,
        load=os.getloadavg()[0],
        kernel="C" if kernel.COMPILED else "numpy",
    )


def available_gib() -> float:
    return _gib("MemAvailable")


def _gib(name: str) -> float:
    return int(_field("/proc/meminfo", name).split()[0]) / 2**20


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
