"""Run cases in processes forked from one that has imported everything. CPU time and memory are limited, and files
written to the folder are detected."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.structure.cases import REPORT, Case

TIME_LIMIT = 10
"""Seconds of CPU time. Wall time depends on how busy the machine is, and only stops a case that sleeps."""
WALL = 60.0
MEMORY = 3 << 30
"""Address space in addition to that of the imported libraries."""
CALLED = re.compile(r'File ".*?effsparse_cli/(\S+?)", line (\d+), in (\S+)')
RAISED = re.compile(r"^(\w[\w.]*?(?:Error|Exception|Interrupt|Warning|Exit)\b.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """`end` is the exit code or how the process ended; `problem` is empty if that is correct."""

    case: Case
    end: str
    problem: str
    seconds: float


def prepare() -> None:
    """Import what commands import, so that forked processes need not, and use one thread: a fork copies only one."""
    import importlib

    import torch

    from tests.torchvision_models import models

    models()
    torch.set_num_threads(1)
    for name in (
        "onnx", "onnxruntime", "safetensors.torch", "transformers.models.llama.modeling_llama", "torch.export",
        "torch._dynamo", "torch.export._trace", "torch.export._unlift", "effsparse_cli.cli",
        "effsparse_cli.formats.torch", "effsparse_cli.formats.onnx",
        "rich.table", "onnxscript", "torch.onnx._internal.exporter._core",
    ):  # fmt: skip
        importlib.import_module(name)
    from effsparse_cli.commands import find_command, list_commands

    for command in list_commands():
        find_command(command)


def run_all(cases: Iterable[Case], folder: Path, jobs: int) -> Iterator[Result]:
    """Yield the results of the cases as they end."""
    running: dict[int, tuple[Case, Path, dict[str, str], float]] = {}
    waiting = iter(cases)
    more = True
    while more or running:
        while more and len(running) < jobs:
            case = next(waiting, None)
            more = case is not None
            if case is not None:
                workdir = folder / f"{case.seed}-{case.number}"
                case.write(workdir)
                before = _contents(workdir)
                running[_start(case, workdir)] = case, workdir, before, time.monotonic()
        for pid in list(running):
            case, workdir, before, started = running[pid]
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if not done and time.monotonic() - started > WALL:
                os.killpg(pid, signal.SIGKILL)
                done, status, usage = os.wait4(pid, 0)
            if done:
                del running[pid]
                yield _judged(
                    case, workdir, before, status, usage.ru_utime + usage.ru_stime, time.monotonic() - started
                )
                shutil.rmtree(workdir)
        time.sleep(0.005)


def _start(case: Case, workdir: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 120
    try:
        os.setsid()
        os.chdir(workdir)
        for stream, number in (("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(f"../{workdir.name}.{stream}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT, TIME_LIMIT + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.dont_write_bytecode = True
        os.environ["EFFSPARSE_DEBUG"] = "1"
        from effsparse_cli.cli import run
        from effsparse_cli.execution import local

        # A fork server would import everything again; this process has one thread and can be forked.
        local._context = lambda *_: multiprocessing.get_context("fork")
        code = run(case.arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _judged(case: Case, workdir: Path, before: dict[str, str], status: int, cpu: float, seconds: float) -> Result:
    message = _read(workdir, "stderr")
    _read(workdir, "stdout")
    after = _contents(workdir)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU or cpu > TIME_LIMIT:
            return Result(case, "hangs", f"more than {TIME_LIMIT} s of CPU time", seconds)
        if number == signal.SIGKILL and seconds > WALL:
            return Result(case, "hangs", f"more than {WALL:.0f} s", seconds)
        return Result(case, "dies", f"ended by signal {number}", seconds)
    code = os.WEXITSTATUS(status)
    return Result(case, f"exit {code}", _problem(case, code, message, before, after), seconds)


def _problem(case: Case, code: int, message: str, before: dict[str, str], after: dict[str, str]) -> str:
    if code not in (0, 2, 3) and not (code == 1 and case.command == "check"):
        frames, raised = CALLED.findall(message), RAISED.findall(message)
        file, line, function = frames[-1] if frames else ("", "", "")
        what = raised[-1][:160] if raised else message.strip()[-200:]
        return f"exit {code} at {file}:{line} in {function}: {what}"
    if case.command == "check":  # its report has the errors
        message += "error" if after.pop(REPORT, "") else ""
    if code in (2, 3) and "error" not in message.lower():
        return f"exit {code} without an error message: {message[-200:]!r}"
    if code in (2, 3) and after != before:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return f"exit {code}, but it wrote {', '.join(changed)}"
    lost = sorted(name for name, content in before.items() if after.get(name) != content)
    return f"exit {code}, and it changed its input {', '.join(lost)}" if lost else ""


def _read(workdir: Path, stream: str) -> str:
    file = workdir.parent / f"{workdir.name}.{stream}"
    text = file.read_bytes()[-20000:].decode("utf-8", "replace") if file.exists() else ""
    file.unlink(missing_ok=True)
    return text


def _contents(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file() or file.is_symlink())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
