"""How time and memory grow with the number of weights: a multilayer perceptron in bfloat16, sparse at random, mapped
from a file as a checkpoint is, that grows wider or deeper. Each size runs in processes of its own, all sizes in turn,
round after round. `python -m benchmarks.growth FILE WIDTH BLOCKS` measures one, as JSON."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.clock import Spread, rounds

if TYPE_CHECKING:
    import torch

    from effsparse_cli.graph.graph import Graph

SIZES = (10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8, 3 * 10**8, 10**9, 3 * 10**9)
WIDEN = 4
BLOCKS, WIDTH = 4, 352
"""How many blocks of two layers there are while it grows wider, and how wide it is while it grows deeper."""
PAGE = 1 << 20
SPARSITY = 0.9
ROUNDS, REPEATS = 5, 5
"""Processes for each size, and times that are taken in each."""
Plan = Callable[[int], tuple[int, int]]


@dataclass(frozen=True)
class Growth:
    """`seconds` has one time for each round. `extra` is the memory at its peak over what there was before the analysis,
    the mapped file not counted; `largest` the size of the largest tensor. In bytes."""

    weights: int
    layers: int
    seconds: Sequence[float]
    extra: int
    largest: int

    @property
    def bits_per_weight(self) -> float:
        """Beside the largest tensor."""
        return 8 * max(self.extra - self.largest, 0) / self.weights


def count(width: int, blocks: int) -> int:
    return sum(a * b for a, b in shapes(width, blocks))


def shapes(width: int, blocks: int = BLOCKS) -> list[tuple[int, int]]:
    return [(WIDEN * width, width), (width, WIDEN * width)] * blocks


def wider(size: int) -> tuple[int, int]:
    """The width and the blocks of a perceptron with about so many weights."""
    return max(16, round(math.sqrt(size / (2 * BLOCKS * WIDEN)) / 16) * 16), BLOCKS


def deeper(size: int) -> tuple[int, int]:
    return WIDTH, max(1, round(size / (2 * WIDEN * WIDTH**2)))


def measure(sizes: Sequence[int], plans: Sequence[Plan], times: int = ROUNDS) -> list[list[Growth]]:
    """For each plan the sizes."""
    nets = [plan(size) for plan in plans for size in sizes]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.bin"
        _write(file, max(count(*net) for net in nets))
        found = []
        for i in range(times):
            print(f"growth: round {i + 1} of {times}", file=sys.stderr, flush=True)
            found.append([_process(file, *net) for net in nets])
    joined = [_join(runs) for runs in zip(*found, strict=True)]
    return [joined[at : at + len(sizes)] for at in range(0, len(joined), len(sizes))]


def _process(file: Path, width: int, blocks: int) -> Growth:
    command = [sys.executable, "-m", "benchmarks.growth", str(file), str(width), str(blocks)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # its errors are for the user to see
    return Growth(**json.loads(done.stdout))


def _join(runs: Sequence[Growth]) -> Growth:
    """All times, and the most memory."""
    seconds = [each for run in runs for each in run.seconds]
    return replace(runs[0], seconds=seconds, extra=max(run.extra for run in runs))


def powers(found: Sequence[Growth]) -> tuple[Spread, float]:
    """Of the number of weights: with which time grows, by the medians, in the lowest and in the highest round; and with
    which memory does."""
    sizes = [g.weights for g in found]
    single = [exponent(sizes, seconds) for seconds in zip(*(g.seconds for g in found), strict=True)]
    time = exponent(sizes, [statistics.median(g.seconds) for g in found])
    return Spread(time, min(single), max(single)), exponent(sizes, [g.extra for g in found])


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the power of the size that fits the values best."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _write(file: Path, numbers: int) -> None:
    """The same million of random bfloat16 numbers again and again, in a length that no layer has."""
    rng = np.random.default_rng(0)
    page = rng.integers(0x3F00, 0x4000, PAGE - 1, dtype=np.uint16) * (rng.random(PAGE - 1) >= SPARSITY)
    with file.open("wb") as out:
        for start in range(0, numbers, len(page)):
            out.write(page[: numbers - start].tobytes())


def _graph(width: int, blocks: int, memory: torch.Tensor) -> Graph:
    from effsparse_cli.formats.torch.tensors import numbers_of
    from effsparse_cli.graph.builder import Builder
    from effsparse_cli.graph.graph import Layer

    builder = Builder()
    x = builder.source("x", (1, width))
    for i, (n, m) in enumerate(shapes(width, blocks)):
        own, memory = memory[: n * m].view(n, m), memory[n * m :]
        x = builder.contract(x, builder.weight(Layer(f"layer{i}", "linear", (n, m), numbers_of(own))))
    return builder.finish([x])


def _run(file: str, width: int, blocks: int) -> Growth:
    import torch

    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.formats.torch.checkpoint.storage.mapped import map_file

    memory = torch.frombuffer(map_file(Path(file)), dtype=torch.bfloat16)
    # What is loaded and set up once belongs to no size.
    analyze_graph(_graph(16, 1, memory))
    whole, again = _graph(width, blocks, memory), _graph(width, blocks, memory)
    before = anonymous()
    # The first run of each: later ones find the memory that it leaves.
    with Peak() as peak:
        analyze_graph(whole)
    extra = max(peak.highest - before, traced(lambda: analyze_graph(again)))
    taken = rounds({"pass": lambda: analyze_graph(whole)}, REPEATS, math.inf)["pass"]
    return Growth(count(width, blocks), 2 * blocks, [statistics.median(taken)], extra, 2 * WIDEN * width * width)


def traced(thing: Callable[[], object]) -> int:
    """The most bytes that Python and numpy hold at a time: exact, where what is soon over escapes a look at the
    process, which in turn sees what others hold."""
    tracemalloc.start()
    thing()
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


def anonymous() -> int:
    """Bytes of memory that are not a file's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


class Peak:
    """Looks at the memory a thousand times a second while it is entered."""

    def __enter__(self) -> Peak:
        self.highest = anonymous()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.001):
            self.highest = max(self.highest, anonymous())


if __name__ == "__main__":
    print(json.dumps(vars(_run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
