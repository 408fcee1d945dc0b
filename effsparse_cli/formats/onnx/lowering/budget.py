"""What reading a model may cost. A small file can ask for a terabyte of zeros, or for more operators than anyone can
walk through: every cost is checked here before it is incurred, and too large a one is an error."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.proto.subgraphs import label, subgraphs
from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.graph.primitives import Ints

MOST_OPERATORS = 100_000
"""Operators that are walked, those of functions, branches and unrolled loops each time that they are."""

MOST_ELEMENTS = 1 << 26
"""Elements of all constants that are computed and held."""

MOST_WORK = 1 << 31
"""Multiplications of one constant product."""

MOST_SECONDS = 10.0
"""Time for computing constants."""

MOST_LIVE = 1 << 34
MOST_AXIS = 1 << 26
"""Elements of a value that is not constant, all of them and along one axis."""

MOST_TABLES = 1 << 26
"""Elements of all tables that say which positions windows, slices and the like read."""

MOST_POSITIONS = 1 << 26
LONGEST = 1 << 22
"""Positions of a feature map, all of them and along one axis."""

MOST_STEPS = 1 << 16
"""Steps of a recurrent layer or loop: more of them are taken as Opaque."""

MOST_SPARSE = 1 << 27
"""Elements of all sparse tensors, each of them made dense."""

DEEPEST = 64
"""Functions and graphs inside each other."""


class Budget:
    """The limits grow with what the file really holds, so that they never stop a large model."""

    def __init__(self, path: Path, model: ModelProto) -> None:
        stored = self._stored = _stored_bytes(path, model)
        written = _count(model.graph) + sum(len(function.node) for function in model.functions)
        self.path = path
        self.operators = MOST_OPERATORS + 10 * written
        self.work = MOST_WORK + 64 * stored
        self.seconds = MOST_SECONDS + stored * 1e-6
        self._depth = 0
        self.start()
        left = MOST_SPARSE + 512 * stored
        for _, tensor, _ in tensors(model):
            if isinstance(tensor, SparseTensorProto):
                left -= math.prod(max(n, 0) for n in tensor.dims)
                if left < 0:
                    raise LoadError(
                        f"{path}: the sparse tensor {tensor.values.name!r} claims the shape {list(tensor.dims)}, too "
                        "large for the values in the file."
                    )

    def start(self) -> None:
        """Called for each attempt at reading the model: what an earlier one held is released."""
        self.elements = MOST_ELEMENTS + 8 * self._stored
        self.tables = MOST_TABLES + 8 * self._stored

    def walk(self, node: NodeProto) -> None:
        self.operators -= 1
        if self.operators < 0:
            raise self._refused(node, "functions, branches and loops write out too many operators")

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Around the body of a function or of a graph inside an operator."""
        if self._depth == DEEPEST:
            raise LoadError(
                f"{self.path}: functions and graphs are nested more than {DEEPEST} deep, or a function calls itself."
            )
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def allow(self, node: NodeProto, size: int, work: int = 0) -> None:
        """Called before a constant of `size` elements is computed by `work` multiplications."""
        if size > self.elements or work > self.work:
            raise self._refused(node, f"it asks for {max(size, work)} constant elements or operations")
        if self.seconds < 0:
            raise self._refused(node, "computing the constants takes too long")

    def allow_live(self, node: NodeProto, extent: Sequence[int]) -> None:
        """Called before an operator with a result of this shape is lowered."""
        if too_large(extent):
            raise self._refused(node, f"its result would have {math.prod(extent)} elements")

    def add_tables(self, node: NodeProto, tables: Sequence[Ints | None], extent: Sequence[int]) -> None:
        """Called for tables of taps over axes of these sizes, before anything is computed from them."""
        if math.prod(extent) > MOST_POSITIONS or max(extent, default=0) > LONGEST:
            raise self._refused(node, f"its result would have {math.prod(extent)} positions")
        self.tables -= sum(table.size for table in tables if table is not None)
        if self.tables < 0:
            raise self._refused(node, "tables of positions would take too much memory")

    def hold(self, size: int) -> None:
        self.elements -= size

    @contextmanager
    def timed(self) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds -= time.monotonic() - start

    def _refused(self, node: NodeProto, why: str) -> LoadError:
        return LoadError(f"{self.path}: {label(node)} is refused: {why}. Simplify or export the model again.")


def too_large(extent: Sequence[int]) -> bool:
    return math.prod(extent) > MOST_LIVE or max(extent, default=0) > MOST_AXIS


def _stored_bytes(path: Path, model: ModelProto) -> int:
    """Of the model and the files that it names, each counted once."""
    places = {
        entry.value
        for _, tensor, _ in tensors(model)
        for entry in (tensor.values if isinstance(tensor, SparseTensorProto) else tensor).external_data
        if entry.key == "location"
    }
    # The size of a message is found by serializing it, so the file's is taken where there is one.
    total: int = 0 if path.is_file() else model.ByteSize()
    for place in map(Path, places | {path.name}):
        with suppress(OSError, ValueError):
            inside = not place.is_absolute() and ".." not in place.parts
            total += (path.parent / place).stat().st_size if inside else 0
    return total


def _count(graph: GraphProto) -> int:
    return len(graph.node) + sum(_count(inner) for node in graph.node for inner in subgraphs(node))
