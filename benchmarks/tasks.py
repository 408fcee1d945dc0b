"""The overhead per task of each engine: many tasks that do nothing, in local processes and on a Ray cluster.

`python -m benchmarks.tasks [--tasks 10000] [--engine local|ray] [--nodes 3]`. Nodes are processes of this machine.
"""

from __future__ import annotations

import argparse
import operator
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from effsparse_cli.execution.cluster import RayEngine
from effsparse_cli.execution.engine import Engine
from effsparse_cli.execution.local import LocalEngine

LOOPBACK = "127.0.0.1"


@contextmanager
def started(engine: str, nodes: int) -> Iterator[Engine]:
    """Yield an engine; for Ray, with a cluster of this number of nodes, one CPU each."""
    if engine == "local":
        yield LocalEngine(os.cpu_count() or 1, threads=1)
        return
    # Ray replaces a loopback address by that of the machine, unless clusters are disabled, and reads this on import.
    os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    arguments = {"num_cpus": 1, "node_ip_address": LOOPBACK}
    cluster = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=arguments)
    for _ in range(nodes - 1):
        cluster.add_node(**arguments)
    try:
        yield RayEngine(cluster.address)
    finally:
        cluster.shutdown()


def measure(engine: Engine, number: int) -> tuple[float, float]:
    """Return the seconds until the first of some tasks is done, and per task from then on."""
    start = time.perf_counter()
    # A function of this file would be measured with its imports: new processes do not search the current folder.
    outcomes = engine.run(range(number), operator.index, preload=["effsparse_cli.execution.worker"])
    next(outcomes)
    first = time.perf_counter()
    left = sum(1 for _ in outcomes)
    assert left == number - 1
    return first - start, (time.perf_counter() - first) / max(1, left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--nodes", type=int, default=3)
    given = parser.parse_args()
    with started(given.engine, given.nodes) as engine:
        startup, each = measure(engine, given.tasks)
    print(f"{given.engine}: first of {given.tasks:,} tasks after {startup:.2f} s, then {1000 * each:.2f} ms per task")


if __name__ == "__main__":
    main()
