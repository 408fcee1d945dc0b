"""The cost of a command from the shell, against the imports that it needs, in whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.clock import Spread, ratio, rounds

FILE = "lenet300.onnx"
COMMANDS = {"--help": "import typer, rich", f"report {FILE}": "import numpy, onnx"}
WIDTHS = (784, 300, 100, 10)


@dataclass(frozen=True)
class Startup:
    command: str
    against: str
    ratio: Spread


def measure(repeats: int) -> Iterator[Startup]:
    with TemporaryDirectory() as folder:
        onnx.save(lenet(), str(Path(folder) / FILE))
        for arguments, imports in COMMANDS.items():
            ours = _process(folder, "-m", "effsparse_cli", *arguments.split())
            theirs = _process(folder, "-c", imports)
            taken = rounds({"ours": ours, "theirs": theirs}, repeats, float("inf"))
            yield Startup(f"effsparse {arguments}", f'python -c "{imports}"', ratio(taken["ours"], taken["theirs"]))


def _process(folder: str, *arguments: str) -> Callable[[], object]:
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    # Installed packages come with their bytecode; a checkout keeps what its first run compiled.
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)


def lenet() -> onnx.ModelProto:
    """LeNet-300-100 with 90 % of its weights zero."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i, (n, m) in enumerate(pairwise(WIDTHS)):
        values = rng.random((n, m), dtype=np.float32) * (rng.random((n, m)) < 0.1)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        nodes += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"])]
        nodes += [helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"])]
    ends = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, n]) for x, n in (("x0", 784), ("x3", 10))]
    return helper.make_model(helper.make_graph(nodes, "lenet", ends[:1], ends[1:], weights))
