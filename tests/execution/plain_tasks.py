"""Tasks that engines are compared on."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
from pathlib import Path

from effsparse_cli.progress import step


def nothing(task: int) -> None:
    pass


def square(task: int) -> int:
    with step(f"squaring {task}", 2) as advance:
        advance(1)
        advance(1)
    return task * task


def square_within(task: int) -> int:
    with step("outer", 2) as advance:
        square(task)
        time.sleep(0.3)
        advance(2)
    return task


def leave_child(task: str) -> None:
    """End with a child that still has its end of the pipe. The file gets the number of the child."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path(task).write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)


def leave_mark(task: tuple[str, int]) -> int:
    """Append a line to a file per task, so that tests see what ran how often."""
    folder, number = task
    with open(Path(folder, str(number)), "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(0.2)
    return number


def fail(task: int) -> int:
    raise ZeroDivisionError(f"task {task}")


def sleep(task: float) -> None:
    time.sleep(task)


def read_threads(task: int) -> str:
    return os.environ["OMP_NUM_THREADS"]


def inspect_main(task: int) -> bool:
    """Find the file of the main module if it has one, as torch does when a library registers operators."""
    main = sys.modules["__main__"]
    return not hasattr(main, "__file__") or bool(inspect.getfile(main))
