"""Damaged model files, one after another, through the command line: `python -m benchmarks.fuzz --count 10000`.

A case fails when the exit code is none of 0, 2 and 3, when nothing says why, when it takes longer than ten seconds, or
when the process dies. What fails is printed with its number, which makes the file again.
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

PATIENCE = 10.0
MEMORY = 12 << 30
"""Of address space: torch alone maps several. A file that makes us want more fails as a crash."""
STARTING = 60.0


@dataclass(frozen=True)
class Whole:
    """A file before it is damaged, and how it is read."""

    content: bytes
    suffix: str
    options: tuple[str, ...] = ()


def corpus() -> list[Whole]:
    """Small files by the libraries that write them."""
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
        Whole(whole, ".pt"),
        Whole(saved(model.state_dict()), ".pt", direct),
        Whole(saved({"state_dict": state, "epoch": 3}, legacy=True), ".pt", direct),
        Whole(saved(sparse), ".pt", direct),
        Whole(plain, ".safetensors", direct),
        Whole(plain, ".safetensors", direct),
        Whole(proto, ".onnx"),
        Whole(proto, ".onnx"),
    ]


def work(seeds: Connection, folder: str) -> None:
    """One process: a number in, what became of its file out."""
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


def problem(code: int, said: str) -> str:
    if code not in (0, 2, 3):
        return f"exit code {code}: {said}"
    if code and not said.startswith("error: "):
        return f"exit code {code} without an error message: {said}"
    return ""


class Worker:
    """A process that can die or hang, and is then replaced."""

    def __init__(self, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, folder), daemon=True)
        self.process.start()
        theirs.close()
        if not self.pipe.poll(STARTING):
            raise RuntimeError("the process does not start")
        self.pipe.recv()

    def run(self, seed: int, patience: float) -> tuple[str, str]:
        """What became of it (exit 0 ...), and what is wrong with that."""
        self.pipe.send(seed)
        if not self.pipe.poll(patience):
            self.process.kill()
            return "hangs", f"longer than {patience:.0f} s"
        try:
            code, said = self.pipe.recv()
        except EOFError:
            self.process.join()
            return "dies", f"the process ended with {self.process.exitcode}"
        return f"exit {code}", problem(code, said)

    @property
    def alive(self) -> bool:
        return self.process.is_alive()


def fuzz(seeds: range, folder: str, patience: float = PATIENCE) -> tuple[Counter[str], list[tuple[int, str]]]:
    """How often each end was met, and the cases that are wrong."""
    ends: Counter[str] = Counter()
    wrong: list[tuple[int, str]] = []
    worker = Worker(folder)
    start = time.monotonic()
    for done, seed in enumerate(seeds):
        end, reason = worker.run(seed, patience)
        ends[end] += 1
        if reason:
            wrong.append((seed, reason))
        if end in ("hangs", "dies"):
            worker.process.join()
            worker = Worker(folder)
        if done % 500 == 499:
            print(f"{done + 1:,} files, {time.monotonic() - start:.0f} s, {len(wrong)} wrong", file=sys.stderr)
    worker.process.kill()
    return ends, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--count", "--cases", type=int, default=1000, help="number of files")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--structure", action="store_true", help="edit structures instead of bytes, over all commands")
    parser.add_argument("--seed", type=int, default=0, help="seed of --structure")
    parser.add_argument("--jobs", type=int, default=2, help="processes of --structure at a time")
    parser.add_argument("--keep", type=Path, help="with --structure: write the files here instead of running them")
    parser.add_argument("--whole", action="store_true", help="with --structure: run every command on unedited files")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    if given.structure:
        os.environ["OMP_NUM_THREADS"] = "1"  # children are forked, and a fork copies no threads
        from benchmarks.structure import run

        return run.main(given.seed, numbers, jobs=given.jobs, folder=given.keep, whole=given.whole)
    with tempfile.TemporaryDirectory() as folder:
        ends, wrong = fuzz(numbers, folder)
    print(f"{given.count:,} damaged files: " + ", ".join(f"{end} {n:,}" for end, n in sorted(ends.items())))
    for seed, reason in wrong:
        print(f"  {seed}: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
