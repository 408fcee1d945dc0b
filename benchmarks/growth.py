"""How time and memory grow with the number of weights, for a sparse multilayer perceptron in bfloat16, mapped from a
file like a checkpoint, that grows wider or deeper. Each size runs in its own processes, all sizes in turn, round after
round. `python -m benchmarks.growth FILE WIDTH BLOCKS` measures one as JSON."""

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
"""Number of blocks of two layers while the network grows wider, and its width while it grows deeper."""
PAGE = 1 << 20
SPARSITY = 0.9
ROUNDS, REPEATS = 5, 5
"""Processes per size, and measurements in each."""
Plan = Callable[[int], tuple[int, int]]


@dataclass(frozen=True)
class Growth:
    """`seconds` has one time per round. `extra` is the peak memory beyond that before the analysis, without the mapped
    file; `largest` is the size of the largest tensor. In bytes."""

    weights: int
    layers: int
    seconds: Sequence[float]
    extra: int
    largest: int

    @property
    def bits_per_weight(self) -> float:
        """Extra memory per weight, without that of the largest tensor."""
        return 8 * max(self.extra - self.largest, 0) / self.weights


def count(width: int, blocks: int) -> int:
    return sum(a * b for a, b in shapes(width, blocks))


def shapes(width: int, blocks: int = BLOCKS) -> list[tuple[int, int]]:
    return [(WIDEN * width, width), (width, WIDEN * width)] * blocks


def wider(size: int) -> tuple[int, int]:
    """Return the width and number of blocks of a network of about `size` weights."""
    return max(16, round(math.sqrt(size / (2 * BLOCKS * WIDEN)) / 16) * 16), BLOCKS


def deeper(size: int) -> tuple[int, int]:
    return WIDTH, max(1, round(size / (2 * WIDEN * WIDTH**2)))


def measure(sizes: Sequence[int], plans: Sequence[Plan], times: int = ROUNDS) -> list[list[Growth]]:
    """Return the results for each plan, by size."""
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
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # errors go to the terminal
    return Growth(**json.loads(done.stdout))


def _join(runs: Sequence[Growth]) -> Growth:
    """Join runs: all times, and the maximum of memory."""
    seconds = [each for run in runs for each in run.seconds]
    return replace(runs[0], seconds=seconds, extra=max(run.extra for run in runs))


def powers(found: Sequence[Growth]) -> tuple[Spread, float]:
    """Return the powers of the number of weights by which time grows, by the medians and in the lowest and highest
    round, and by which memory grows."""
    sizes = [g.weights for g in found]
    single = [exponent(sizes, seconds) for seconds in zip(*(g.seconds for g in found), strict=True)]
    time = exponent(sizes, [statistics.median(g.seconds) for g in found])
    return Spread(time, min(single), max(single)), exponent(sizes, [g.extra for g in found])


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of the power law that fits best."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _write(file: Path, numbers: int) -> None:
    """Write the same million random bfloat16 numbers repeatedly. The period is not the length of any layer."""
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
    from effsparse_cli.formats.torch.checkpoint.storage import map_file

    memory = torch.frombuffer(map_file(Path(file)), dtype=torch.bfloat16)
    # Exclude what is loaded and set up once.
    analyze_graph(_graph(16, 1, memory))
    whole, again = _graph(width, blocks, memory), _graph(width, blocks, memory)
    before = anonymous()
    # Measure the first run: later ones may reuse its memory.
    with Peak() as peak:
        analyze_graph(whole)
    extra = max(peak.highest - before, traced(lambda: analyze_graph(again)))
    taken = rounds({"pass": lambda: analyze_graph(whole)}, REPEATS, math.inf)["pass"]
    return Growth(count(width, blocks), 2 * blocks, [statistics.median(taken)], extra, 2 * WIDEN * width * width)


def traced(thing: Callable[[], object]) -> int:
    """Return the peak memory of Python and numpy. It is exact, where sampling the process misses short peaks but sees
    memory of other libraries."""
    tracemalloc.start()
    thing()
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


def anonymous() -> int:
    """Return the resident memory that does not belong to a file, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


class Peak:
    """Samples the memory a thousand times a second inside a `with` block."""

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
