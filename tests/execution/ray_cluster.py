"""A Ray cluster of three node processes on the loopback address, for tests that run on request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from effsparse_cli.execution.cluster import import_ray

LOOPBACK = "127.0.0.1"


@contextmanager
def started_cluster() -> Iterator[Any]:
    """Yield a cluster of a head and two nodes, `extra`, with one CPU each. Without Ray, the test is skipped."""
    # Ray replaces a loopback address by that of the machine, unless clusters are disabled, and reads this on import.
    os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    utils = pytest.importorskip("ray.cluster_utils")
    started = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "node_ip_address": LOOPBACK})
    try:
        started.extra = [started.add_node(num_cpus=1, node_ip_address=LOOPBACK) for _ in range(2)]
        yield started
    finally:
        import_ray().shutdown()
        started.shutdown()
