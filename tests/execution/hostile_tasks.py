"""Tasks that do to a process what hostile models do. Imports are kept few: every worker process repeats them."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import numpy as np


def work(task: str) -> str:
    match task:
        case "loop":
            while True:
                pass
        case "sleep":
            time.sleep(3600)
        case "grow":
            held = []
            while True:
                held.append(np.ones(1 << 20))
        case "jump":
            np.empty(1 << 40)
        case "crash":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(9)
    return f"done {task}"
