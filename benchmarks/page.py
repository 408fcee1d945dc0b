"""The docs page from the results of one run. `python -m benchmarks.page RESULTS.json docs/benchmarks.md` writes it from
a file, which several runs may have been put together in."""

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

The engine's time is scan, exact pass and count together: from the weights as they lie in memory to the numbers of a
report, on a graph that is there. It stands against:

- `np.count_nonzero` over the same weights, one tensor after another: the least that any sparsity count must do. Below
  1x the effective count is cheaper than counting zeros.
- one float32 autograd pass of the path norm, the paper's way, with its count. Making masks into weights is not counted.
  For models with attention, which the paper has no path norm for, it is the cost of such a pass, not an answer.
- the saturated torch pass, `engine="saturated"`.

All of them run in turn, round after round, in one process, each after a pause of 20 ms, because torch's threads stay
busy for some milliseconds after their work; a ratio is taken within a round. Shown is the median, with the lowest and
the highest round behind it: the machine's noise. Pruning is random and alike in every layer. The row
"last connected" is the highest sparsity at which the model still has a path, found by bisection: the slow band, with
many channels partly alive. A disconnected case is cheap for everyone and does not count. Wherever the paper's pass has
an answer it was compared with ours; (!) marks a difference, which float32 makes at depth. The passes in torch are left
out for Llama, where one takes ten seconds and more.
"""
GROWTH = """## How it grows

A multilayer perceptron in bfloat16, nine of ten weights zero, mapped from a file as checkpoints are: its pages are in
the machine's cache, and every pass maps them anew and gives them back. Each size runs in five processes of its own, all
sizes in turn, round after round; a round's time is the median of five, each of one pass, or of as many as take 20 ms.
Shown is the median round, with the lowest and the highest behind it. Extra memory is the peak over what the
process had before the analysis, the mapped file not counted, or what numpy and Python allocated if that is more; the
most of all rounds.
"""
DEEPER = """Deeper, with layers of half a million weights each: what a layer costs beside its weights grows along.
"""
WIDER = """Wider, with eight layers: what these cost beside their weights is some 0.05 ms at any size, which
shows at the small end.
"""
STARTUP = """## From the shell

Whole processes in turn, against the imports that they cannot do without.
"""
STEP = """## In a training loop

A second `analyze` of a live model, of one training step (forward, backward and SGD).
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
