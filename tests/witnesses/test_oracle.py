"""Witnesses 1 and 4: on generated graphs, the engine on packed bits equals the brute-force oracle for every
connection, and the torch engines equal the engine on packed bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from effsparse_cli import kernel
from effsparse_cli.graph.graph import Graph
from effsparse_cli.kernel import numpy_loops
from effsparse_cli.paths import find_paths
from tests.oracle import KINDS, oracle
from tests.witnesses.graphs import graphs
from tests.witnesses.wide_graphs import wide_graphs

Record = Callable[[str, object], None]
QUICK, LONG = {"small": 100, "wide": 60}, {"small": 2000, "wide": 500}
KINDS_OF_GRAPH = {"small": graphs(), "wide": wide_graphs()}


def on_generated_graphs(size: str, number: int, examples: int, check: Callable[[Graph], None]) -> None:
    """Check the same graphs in every run; a failing one is shrunk first."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(KINDS_OF_GRAPH[size])
    def run(graph: Graph) -> None:
        check(graph)

    run()


def against_oracle(size: str, number: int, examples: int, record: Record) -> None:
    seen: Counter[str] = Counter()

    def check(graph: Graph) -> None:
        found, truth = find_paths(graph, engine="bits"), oracle(graph)
        seen["graphs"] += 1
        for name, layer in graph.layers.items():
            for kind in KINDS:
                expected = np.array(truth[name][kind], dtype=bool).reshape(layer.shape)
                assert found[name].count(kind) == expected.sum(), f"{kind} of {name}"
                np.testing.assert_array_equal(found[name].mask(kind), expected, f"{kind} of {name}")
                seen[kind] += int(expected.sum())

    on_generated_graphs(size, number, examples, check)
    for what, n in seen.items():
        record(f"witness: 1 brute force, {what}", n)


def against_bits(engine: str, size: str, number: int, examples: int, record: Record) -> None:
    seen: Counter[str] = Counter()

    def check(graph: Graph) -> None:
        found, bits = find_paths(graph, engine=engine), find_paths(graph, engine="bits")
        seen["graphs"] += 1
        for name in graph.layers:
            for kind in KINDS:
                np.testing.assert_array_equal(found[name].mask(kind), bits[name].mask(kind), f"{kind} of {name}")

    on_generated_graphs(size, number, examples, check)
    record(f"witness: 4 engine {engine}, graphs", seen["graphs"])


@pytest.mark.parametrize(("size", "number"), [("small", n) for n in range(6)] + [("wide", n) for n in range(2)])
def test_bits_equal_the_oracle(size: str, number: int, record_property: Record) -> None:
    against_oracle(size, number, QUICK[size], record_property)


@pytest.mark.parametrize(("size", "number"), [("small", 6), ("wide", 2)])
def test_bits_equal_the_oracle_without_the_compiled_kernel(
    size: str, number: int, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("backward", "forward", "meet", "number", "pack", "tally", "transpose"):
        monkeypatch.setattr(kernel, name, getattr(numpy_loops, name))
    against_oracle(size, number, QUICK[size], record_property)


@pytest.mark.parametrize(("size", "number"), [("small", 100), ("small", 101), ("wide", 100)])
@pytest.mark.parametrize("engine", ["saturated", "pathnorm"])
def test_torch_engines_equal_bits(engine: str, size: str, number: int, record_property: Record) -> None:
    against_bits(engine, size, number, QUICK[size], record_property)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1000, 1008))
@pytest.mark.parametrize("size", ["small", "wide"])
def test_bits_equal_the_oracle_at_length(size: str, number: int, record_property: Record) -> None:
    against_oracle(size, number, LONG[size], record_property)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "wide"])
@pytest.mark.parametrize("engine", ["saturated", "pathnorm"])
def test_torch_engines_equal_bits_at_length(engine: str, size: str, record_property: Record) -> None:
    against_bits(engine, size, 2000, LONG[size], record_property)
