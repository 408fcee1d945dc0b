"""Limits on the cost of loading a model. A small file can ask for a terabyte of zeros, or for more operators than can
be walked, so every cost is checked here before it is incurred. Exceeding a limit is an error."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.proto import label, subgraphs
from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.graph.primitives import Ints

MOST_OPERATORS = 100_000
"""Operators to walk. Those in functions, branches and unrolled loops count each time that they are walked."""

MOST_ELEMENTS = 1 << 26
"""Elements of all constants that are held."""

MOST_WORK = 1 << 31
"""Multiplications in one product of constants."""

MOST_SECONDS = 10.0
"""Time for evaluating constants."""

MOST_LIVE = 1 << 34
MOST_AXIS = 1 << 26
"""Elements of a live value, in all and along one axis."""

MOST_TABLES = 1 << 26
"""Elements of all tables of taps and indices."""

MOST_POSITIONS = 1 << 26
LONGEST = 1 << 22
"""Positions of a feature map, in all and along one axis."""

MOST_STEPS = 1 << 16
"""Steps of a recurrent layer or loop. With more steps it becomes Opaque."""

MOST_SPARSE = 1 << 27
"""Elements of all sparse tensors after they are made dense."""

DEEPEST = 64
"""Nesting depth of functions and subgraphs."""


class Budget:
    """Limits that grow with the size of the file, so that they do not reject large models."""

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
        """Start another attempt at lowering the model, which releases what the previous one held."""
        self.elements = MOST_ELEMENTS + 8 * self._stored
        self.tables = MOST_TABLES + 8 * self._stored

    def walk(self, node: NodeProto) -> None:
        self.operators -= 1
        if self.operators < 0:
            raise self._refused(node, "its functions, branches and loops expand to too many operators")

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Wrap the walk of a function or subgraph."""
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
        """Check the cost of a constant before it is computed."""
        if size > self.elements or work > self.work:
            raise self._refused(node, f"it needs {max(size, work)} constant elements or operations")
        if self.seconds < 0:
            raise self._refused(node, "computing the constants takes too long")

    def allow_live(self, node: NodeProto, extent: Sequence[int]) -> None:
        """Check the size of a live result before the op call is lowered."""
        if too_large(extent):
            raise self._refused(node, f"its result would have {math.prod(extent)} elements")

    def add_tables(self, node: NodeProto, tables: Sequence[Ints | None], extent: Sequence[int]) -> None:
        """Count tables of taps over axes of these sizes before anything is computed from them."""
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
    """Return the size of the model and of the files with its external data."""
    places = {
        entry.value
        for _, tensor, _ in tensors(model)
        for entry in (tensor.values if isinstance(tensor, SparseTensorProto) else tensor).external_data
        if entry.key == "location"
    }
    # ByteSize serializes the message, so the size of the file is used if there is one.
    total: int = 0 if path.is_file() else model.ByteSize()
    for place in map(Path, places | {path.name}):
        with suppress(OSError, ValueError):
            inside = not place.is_absolute() and ".." not in place.parts
            total += (path.parent / place).stat().st_size if inside else 0
    return total


def _count(graph: GraphProto) -> int:
    return len(graph.node) + sum(_count(inner) for node in graph.node for inner in subgraphs(node))
