"""Time whole commands against `onnx.load` plus `onnx.save` of the same file, as processes:
`python -m benchmarks.whole_commands`. Both run in turns in one run, and the ratio of their medians is printed."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, RUNS = 6, 2048, 5
COPY = "import sys, onnx; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"
PRUNE = "import sys; from effsparse_cli.cli import run; sys.exit(run(sys.argv[1:]))"
OPTIONS = ["--lsq", "igq", "--target", "0.99"]


def write_model(path: Path) -> None:
    """Write a multilayer perceptron of LAYERS layers of WIDTH x WIDTH weights."""
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(LAYERS):
        values = random.standard_normal((WIDTH, WIDTH), dtype=np.float32) / np.sqrt(np.float32(WIDTH))
        weights.append(numpy_helper.from_array(values, f"fc{i}.weight"))
        nodes += [
            helper.make_node("Gemm", [f"x{i}", f"fc{i}.weight"], [f"h{i}"], transB=1),
            helper.make_node("Relu", [f"h{i}"], [f"x{i + 1}"]),
        ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in ("x0", f"x{LAYERS}")]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def time_process(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = str(Path(folder) / "model.onnx"), str(Path(folder) / "out.onnx")
        write_model(Path(source))
        copies, prunes = [], []
        for _ in range(RUNS + 1):
            copies.append(time_process(COPY, source, target))
            prunes.append(time_process(PRUNE, "prune", source, *OPTIONS, "-o", target))
    copy, prune = (statistics.median(times[1:]) for times in (copies, prunes))
    print(f"onnx.load and onnx.save {copy:.2f} s, effsparse prune {prune:.2f} s: {prune / copy:.1f} times")


if __name__ == "__main__":
    main()
