"""Steps of taps equal their tables, and long axes take little memory."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from effsparse_cli.graph import windows
from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps
from effsparse_cli.kernel import compiled, numpy_loops
from effsparse_cli.kernel.bits import pack, unpack
from effsparse_cli.kernel.numpy_loops import positions_of_steps
from effsparse_cli.kernel.structures import FULL, IRREGULAR, Geometry, NumberedMaps
from effsparse_cli.paths.boolean.geometry import build_geometries
from effsparse_cli.paths.taps import invert

STFT = """
import sys
from pathlib import Path
from effsparse_cli.cli import run
assert run(["report", sys.argv[1], "--format", "csv"]) == 0
# Not by getrusage, which counts what the process that started this one had in use.
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""


@st.composite
def axes(draw: st.DrawFn, longest: int, kernel: int) -> tuple[Taps, int]:
    """A table of taps and the size of the axis that it reads: convolutions of all kinds, resizing, or chance."""
    size, taps = draw(st.integers(1, longest)), draw(st.integers(1, kernel))
    stride, dilation, before = draw(st.integers(1, 7)), draw(st.integers(1, 3)), draw(st.integers(0, kernel))
    kind = draw(st.sampled_from(["sliding", "sliding", "transposed", "adaptive", "flipped", "chance"]))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    if kind == "adaptive":
        return windows.adaptive(size, draw(st.integers(1, 40))), size
    if kind == "transposed":
        return windows.transposed(size * stride, size, taps, stride=stride, dilation=dilation, before=before), size
    table = windows.sliding_to(max(size // stride, 1), size, taps, stride=stride, dilation=dilation, before=before)
    if kind == "flipped":
        return table[:, ::-1], size
    if kind == "chance":
        return np.where(random.random(table.shape) < 0.3, random.integers(-1, size, table.shape), table), size
    return table, size


LONG = st.tuples(axes(3000, 30))
WIDE = st.tuples(axes(60, 7), axes(60, 7))


def read_by(geometry: Geometry) -> Ints:
    """[taps, outputs]: the position that each tap reads, as the kernel finds it."""
    fronts = np.frombuffer(geometry.front, np.int32).reshape(geometry.taps // geometry.last_taps, -1)
    steps = np.frombuffer(geometry.steps, np.int32).reshape(-1, 5)
    last = np.frombuffer(geometry.last, np.int32).reshape(-1, geometry.line_length)
    found = []
    for front in fronts:
        for k, step in enumerate(steps):
            places = last[k] if step[4] < 0 else positions_of_steps(step, geometry.line_length)
            inside = (front >= 0)[:, None] & (places >= 0)
            found.append(np.where(inside, front[:, None].astype(np.int64) + places, -1).reshape(-1))
    return np.array(found).reshape(geometry.taps, geometry.outputs)


def expected(tables: list[Taps], sizes: Shape, batch: int) -> Ints:
    """The same from dense tables."""
    found, members = np.arange(batch)[None], batch
    for table, size in zip(tables, sizes, strict=True):
        inside = (found >= 0)[:, None, :, None] & (table >= 0)[None, :, None, :]
        there = np.where(inside, found[:, None, :, None] * size + table[None, :, None, :], -1)
        members *= table.shape[1]
        found = there.reshape(-1, members)
    return found


def check(geometry: Geometry, reads: Ints, positions: int) -> None:
    assert (geometry.taps, geometry.positions, geometry.outputs) == (len(reads), positions, reads.shape[1])
    np.testing.assert_array_equal(read_by(geometry), reads)
    covers = np.frombuffer(geometry.covers, np.uint64).reshape(geometry.taps, -1)
    np.testing.assert_array_equal(covers, pack(reads >= 0))
    np.testing.assert_array_equal(np.frombuffer(geometry.always, bool), (reads >= 0).all(axis=1))
    for row, distance in zip(reads, np.frombuffer(geometry.distances, np.int64), strict=True):
        away = np.unique((row - np.arange(len(row)))[row >= 0])
        assert not len(away) or distance == (away[0] if len(away) == 1 else IRREGULAR)


@given(LONG | WIDE, st.integers(1, 2))
@settings(max_examples=60)
def test_steps_equal_dense_tables(drawn: tuple[tuple[Taps, int], ...], batch: int) -> None:
    tables, sizes = [table for table, _ in drawn], tuple(size for _, size in drawn)
    out = tuple(table.shape[1] for table in tables)
    forward, back = build_geometries(tuple(tables), sizes, batch)
    inverse = [invert(table, size) for table, size in drawn]
    check(forward.geometry, expected(tables, sizes, batch), batch * math.prod(sizes))
    check(back.geometry, expected(inverse, out, batch), batch * math.prod(out))
    assert (forward.out, back.out) == (out, sizes)


@given(LONG | WIDE, st.integers(0, 1 << 32))
@settings(max_examples=40)
def test_the_kernel_reads_long_axes_like_dense_tables(drawn: tuple[tuple[Taps, int], ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    tables, sizes = [table for table, _ in drawn], tuple(size for _, size in drawn)
    for way, dense in zip(
        build_geometries(tuple(tables), sizes, 1),
        (
            expected(tables, sizes, 1),
            expected([invert(t, n) for t, n in drawn], tuple(t.shape[1] for t in tables), 1),
        ),
        strict=True,
    ):
        g = way.geometry
        kept: Bools = random.random((4, 3, g.taps)) < 0.3
        maps: Bools = random.random((3, g.positions)) < 0.5
        table = pack(np.concatenate([np.zeros((1, g.positions), bool), np.ones((1, g.positions), bool), maps]))
        wanted = np.zeros((4, g.outputs), bool)
        for row, channel, tap in np.argwhere(kept):
            wanted[row] |= maps[channel][dense[tap]] & (dense[tap] >= 0)
        for kernel in (numpy_loops, compiled):
            found = kernel.forward(pack(kept.reshape(4, -1)), 1, 3, np.arange(2, 5, dtype=np.int32), table, g)
            np.testing.assert_array_equal(_maps(found, 4, g.outputs), wanted)


def _maps(found: NumberedMaps, rows: int, outputs: int) -> Bools:
    if isinstance(found, int):
        return np.full((rows, outputs), found == FULL)
    numbers, table = np.frombuffer(found[0], np.int32), found[1]
    if table is None:
        return np.repeat(numbers.astype(bool)[:, None], outputs, axis=1)
    return unpack(np.frombuffer(table, np.uint64).reshape(-1, -(-outputs // 64)), outputs)[numbers]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_spectrogram_of_half_a_million_samples_takes_little_memory(tmp_path: Path) -> None:
    """Whisper's front end as exporters write it: a convolution of 400 taps over 30 seconds of sound."""
    random = np.random.default_rng(0)
    weights = {"stft": (202, 1, 400), "mel": (80, 202, 1), "conv": (96, 80, 3), "half": (96, 96, 3)}
    strides = {"stft": (160, 200), "mel": (1, 0), "conv": (1, 1), "half": (2, 1)}
    nodes, tensors, x = [], [], "x"
    for name, shape in weights.items():
        array = np.where(random.random(shape) < 0.1, random.standard_normal(shape), 0).astype(np.float32)
        tensors.append(numpy_helper.from_array(array, f"{name}.weight"))
        stride, pad = strides[name]
        nodes.append(helper.make_node("Conv", [x, f"{name}.weight"], [name], strides=[stride], pads=[pad, pad]))
        x = name
    graph = helper.make_graph(
        nodes,
        "whisper",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 480000])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
        tensors,
    )
    file = tmp_path / "whisper.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    done = subprocess.run([sys.executable, "-c", STFT, str(file)], capture_output=True, text=True, check=True)
    assert int(done.stderr.split()[-1]) < 500_000
