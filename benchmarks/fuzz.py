"""Run `effsparse report` on damaged model files: `python -m benchmarks.fuzz --count 10000`.

A case fails if the exit code is not 0, 2 or 3, if an error has no message, if it takes longer than ten seconds, or if
the process dies. Failures are printed with their number, which reproduces the file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.mutations import mutate

TIME_LIMIT = 10.0
MEMORY = 12 << 30
"""Limit of address space; torch alone maps several GiB. A file that needs more fails as a crash."""
START_LIMIT = 60.0


@dataclass(frozen=True)
class ModelFile:
    """An undamaged file and the options to read it."""

    content: bytes
    suffix: str
    options: tuple[str, ...] = ()


def corpus() -> list[ModelFile]:
    """Return small files, written by their own libraries."""
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.torch import save
    from torch import nn
    from torch.nn.utils import prune

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

    def saved(content: object, legacy: bool = False) -> bytes:
        buffer = io.BytesIO()
        torch.save(content, buffer, _use_new_zipfile_serialization=not legacy)
        return buffer.getvalue()

    state = model.state_dict()
    plain = save({name: tensor.clone() for name, tensor in state.items()})
    weights = [numpy_helper.from_array(tensor.numpy(), name) for name, tensor in state.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n]) for name, n in (("x", 6), ("y", 3)))
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    proto = helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]).SerializeToString()
    whole = saved(model)
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    sparse = {"0.weight": state["0.weight"].to_sparse_csr(), "2.weight": state["2.weight"].to_sparse()}
    direct = ("--direct-only",)
    return [
        ModelFile(whole, ".pt"),
        ModelFile(saved(model.state_dict()), ".pt", direct),
        ModelFile(saved({"state_dict": state, "epoch": 3}, legacy=True), ".pt", direct),
        ModelFile(saved(sparse), ".pt", direct),
        ModelFile(plain, ".safetensors", direct),
        ModelFile(plain, ".safetensors", direct),
        ModelFile(proto, ".onnx"),
        ModelFile(proto, ".onnx"),
    ]


def work(seeds: Connection, folder: str) -> None:
    """Run in a process: receive seeds, and send the exit code and error message of their files."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["EFFSPARSE_DEBUG"] = ""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    from effsparse_cli.cli import run

    files = corpus()
    seeds.send(None)
    while True:
        seed = seeds.recv()
        whole = files[seed % len(files)]
        path = Path(folder) / f"{os.getpid()}{whole.suffix}"
        path.write_bytes(mutate(whole.content, seed))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["report", str(path), *whole.options])
        seeds.send((code, err.getvalue().strip()[:400]))


def problem(code: int, message: str) -> str:
    if code not in (0, 2, 3):
        return f"exit code {code}: {message}"
    if code and not message.startswith("error: "):
        return f"exit code {code} without an error message: {message}"
    return ""


class Worker:
    """A process that may die or hang."""

    def __init__(self, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, folder), daemon=True)
        self.process.start()
        theirs.close()
        if not self.pipe.poll(START_LIMIT):
            raise RuntimeError("the process did not start")
        self.pipe.recv()

    def run(self, seed: int, time_limit: float) -> tuple[str, str]:
        """Return how the case ended (exit 0, hangs, ...), and what is wrong with it."""
        self.pipe.send(seed)
        if not self.pipe.poll(time_limit):
            self.process.kill()
            return "hangs", f"longer than {time_limit:.0f} s"
        try:
            code, message = self.pipe.recv()
        except EOFError:
            self.process.join()
            return "dies", f"the process ended with {self.process.exitcode}"
        return f"exit {code}", problem(code, message)

    @property
    def alive(self) -> bool:
        return self.process.is_alive()


def fuzz(seeds: range, folder: str, time_limit: float = TIME_LIMIT) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Return the number of cases by how they ended, and the failures."""
    ends: Counter[str] = Counter()
    wrong: list[tuple[int, str]] = []
    worker = Worker(folder)
    start = time.monotonic()
    for done, seed in enumerate(seeds):
        end, reason = worker.run(seed, time_limit)
        ends[end] += 1
        if reason:
            wrong.append((seed, reason))
        if end in ("hangs", "dies"):
            worker.process.join()
            worker = Worker(folder)
        if done % 500 == 499:
            print(f"{done + 1:,} files, {time.monotonic() - start:.0f} s, {len(wrong)} failed", file=sys.stderr)
    worker.process.kill()
    return ends, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--count", "--cases", type=int, default=1000, help="number of files")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--structure", action="store_true", help="edit structures instead of bytes, run all commands")
    parser.add_argument("--seed", type=int, default=0, help="seed of --structure")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes of --structure")
    parser.add_argument("--keep", type=Path, help="with --structure: folder to write files to instead of running them")
    parser.add_argument("--whole", action="store_true", help="with --structure: run every command on unedited files")
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.count)
    if arguments.structure:
        os.environ["OMP_NUM_THREADS"] = "1"  # processes are forked, and a fork copies no threads
        from benchmarks.structure import run

        return run.main(arguments.seed, numbers, jobs=arguments.jobs, folder=arguments.keep, whole=arguments.whole)
    with tempfile.TemporaryDirectory() as folder:
        ends, wrong = fuzz(numbers, folder)
    print(f"{arguments.count:,} damaged files: " + ", ".join(f"{end} {n:,}" for end, n in sorted(ends.items())))
    for seed, reason in wrong:
        print(f"  {seed}: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
