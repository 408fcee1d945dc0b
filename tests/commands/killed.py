"""Runs a command that writes into a folder again and again, and kills it at another moment each time:

    python -m tests.commands.killed SEED FOLDER COMMAND...

once before every step that it takes in the folder (a file opened, renamed, removed ...), once in the middle of a write,
after so and so many bytes, and once after so and so many seconds. After each kill a line of JSON says how it ended and
what is in the folder; the first line is that of the whole run. Each run is a fork, so that imports are paid for once.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

from effsparse_cli.cli import run

STEPS = ("open", "os.rename", "os.remove", "os.chmod", "os.mkdir", "shutil.move", "shutil.copyfile", "shutil.rmtree")
MOST_STEPS, IN_WRITES, BY_TIME = 30, 6, 4


def contents(folder: Path) -> dict[str, str]:
    """Skip hidden files: a temporary file left by a killed run is not an output."""
    shown = [file for file in sorted(folder.rglob("*")) if file.is_file() and not _hidden(file, folder)]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in shown}


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def before_step(number: int, folder: Path, steps: int) -> None:
    """Kills this process before a step in the folder; each that is taken writes a byte to `steps`."""
    taken = 0

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal taken
        if event in STEPS and any(str(folder) in str(arg) for arg in args):
            if taken == number:
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1
            os.write(steps, b".")

    sys.addaudithook(hook)


def after_bytes(number: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))


def after_seconds(seconds: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def tried(name: str, prepare: Callable[[], None], folder: Path, command: list[str], before: dict[Path, bytes]) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for file, content in before.items():
        file.write_bytes(content)
    child = os.fork()
    if child == 0:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            prepare()
            os._exit(run(command))
    status = os.waitpid(child, 0)[1]
    print(json.dumps({"moment": name, "signal": os.WTERMSIG(status), "files": contents(folder)}), flush=True)


def main(seed: int, folder: Path, command: list[str]) -> None:
    dice = random.Random(seed)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    reading, writing = os.pipe()

    def each(name: str, prepare: Callable[[], None]) -> None:
        tried(name, prepare, folder, command, before)

    if any(argument.endswith(".onnx") for argument in command[:-1]):
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            run(command[:-2])
    else:
        # Imported and not run: torch would start threads, which forks do not have.
        importlib.import_module("effsparse_cli.compaction.torch.execute")
    started = time.monotonic()
    each("never", partial(before_step, -1, folder, writing))
    took, steps = time.monotonic() - started, len(os.read(reading, 1 << 16))
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    for step in sorted(dice.sample(range(steps), min(steps, MOST_STEPS))):
        each(f"before step {step}", partial(before_step, step, folder, writing))
    for _ in range(IN_WRITES):
        number = dice.randrange(dice.choice(sizes))
        each(f"after {number} bytes", partial(after_bytes, number))
    for _ in range(BY_TIME):
        seconds = took * dice.uniform(0.3, 1)
        each(f"after {seconds:.3f} s", partial(after_seconds, seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
