"""The docs page. `python -m benchmarks.page RESULTS.json docs/benchmarks.md` writes it from a file, which may combine
several runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import table
from benchmarks.machine import Machine
from benchmarks.results import Results, read

HEAD = """# Benchmarks

Written by `python -m benchmarks --json results.json --page docs/benchmarks.md`, which measures everything below anew.
"""
RATIOS = """## What an exact count costs

The engine's time includes scan, exact pass and count: from the weights in memory to the numbers of a report, on an
existing graph. It is compared with:

- `np.count_nonzero` over the same weights, tensor by tensor: the minimum for any sparsity count. Below 1x, the
  effective count is cheaper than counting zeros.
- one float32 autograd pass of the path norm, the paper's method, with its count. Turning masks into weights is not
  timed. The paper defines no path norm for attention, so for such models this is only the cost of a pass.
- the saturated torch pass, `engine="saturated"`.

All of them run in turn, round after round, in one process, each after a pause of 20 ms, because threads of torch stay
busy for some milliseconds after their work. Ratios are taken within a round. The table has the median, and the lowest
and highest round in brackets. Pruning is random and uniform. "last connected" is the highest sparsity at which the
model still has a path, found by bisection; it is the slowest case, because many channels are partly live. Disconnected
models are cheap for every method. Results were compared with the paper's pass where it has one; (!) marks a difference,
which float32 causes at depth. The torch passes are skipped for Llama, where one takes more than ten seconds.
"""
GROWTH = """## How it grows

A multilayer perceptron in bfloat16, 90 % of its weights zero, mapped from a file like a checkpoint. The file is in the
page cache; every pass maps and releases its pages. Each size runs in five processes, all sizes in turn, round after
round. The time of a round is the median of five measurements, each of one pass or of as many as take 20 ms. The table
has the median round, and the lowest and highest in brackets. Extra memory is the peak beyond that before the analysis,
without the mapped file, or what numpy and Python allocated if that is more; the maximum of all rounds.
"""
DEEPER = """Deeper, with layers of half a million weights each, so that the fixed cost of a layer grows too.
"""
WIDER = """Wider, with eight layers, so that the fixed cost of the layers stays the same.
"""
STARTUP = """## From the shell

Whole processes, compared with the imports that they need.
"""
STEP = """## In a training loop

A second `analyze` of a live model, as a fraction of one training step (forward, backward and SGD).
"""


def write(results: Results) -> str:
    parts = [HEAD, _machine(results.machine)]
    if results.rows:
        parts += [RATIOS, table.ratios(results.rows) + "\n"]
    if results.wider:
        parts += [GROWTH, DEEPER, table.growth(results.deeper) + "\n", WIDER, table.growth(results.wider) + "\n"]
    if results.startup:
        parts += [STARTUP, table.startup(results.startup) + "\n"]
    if results.step is not None:
        parts += [STEP, table.step(results.step) + "\n"]
    return "\n".join(parts)


def _machine(m: Machine) -> str:
    busy = "" if m.load < 0.5 else ", which was NOT idle: times are too long and ratios uncertain"
    return (
        f"The machine: {m.processor}, {m.cores} cores, {m.gib:.0f} GiB; Python {m.python}, numpy {m.numpy}, torch "
        f"{m.torch}, the kernel in {m.kernel}; {m.date}; load before the start {m.load:.1f}{busy}.\n"
    )


if __name__ == "__main__":
    found = read(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(write(found), encoding="utf-8")
