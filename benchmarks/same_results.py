"""Compare the JSON output of two installations, byte for byte: `python -m benchmarks.same_results OLD NEW`.

OLD and NEW are Python interpreters that have effsparse installed. Every JSON-producing command runs on every sample
model with each of them. Outputs that differ only in sentences (notes, messages) are counted separately. The exit code
is 1 if anything else differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[1] / "sample_models"
SHAPES = {"lenet5_igq.pt": ("--input-shape", "1,3,32,32")}
JSON = ("--format", "json")


def commands(model: Path) -> Iterator[list[str]]:
    """Return the command lines to compare for one model."""
    shape = SHAPES.get(model.name, ())
    yield ["report", str(model), *JSON, *shape]
    yield ["report", str(model), *JSON, *shape, "--count-embeddings", "--norms-dont-cut"]
    yield ["prune", str(model), *JSON, *shape, "--method", "random", "--lsq", "igq", "--target", "0.99"]
    yield ["prune", str(model), *JSON, *shape, "--method", "magnitude", "--target", "0.95"]
    yield ["repair", str(model), *JSON, *shape]
    yield ["repair", str(model), *JSON, *shape, "--budget-neutral"]
    yield ["quotas", str(model), *JSON, *shape, "--target", "0.9"]
    yield ["curve", str(model), *JSON, *shape, "--method", "random", "--points", "5"]
    yield ["check", str(model), *JSON, "--min-effective", "0.9"]
    yield ["diff", str(model), str(model), *JSON, *shape]


def run(python: str, arguments: list[str]) -> tuple[int, bytes]:
    """Run one command with one interpreter and return its exit code and standard output."""
    # With PYTHONPATH, both interpreters would import the same package.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-P", "-m", "effsparse_cli", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    return done.returncode, done.stdout


def without_sentences(output: tuple[int, bytes]) -> Any:
    """Return the exit code and the parsed JSON without any text that contains a space."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(each) for key, each in value.items()}
        if isinstance(value, list):
            return [strip(each) for each in value]
        return "" if isinstance(value, str) and " " in value else value

    code, text = output
    return code, strip(json.loads(text)) if text else text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="interpreter of the first installation")
    parser.add_argument("new", help="interpreter of the second installation")
    parser.add_argument("--models", type=Path, default=SAMPLES, help="folder of models [default: sample_models]")
    options = parser.parse_args()
    models = [path for path in sorted(options.models.iterdir()) if path.suffix in (".pt", ".pt2", ".onnx", ".pth")]
    compared = different = reworded = 0
    for model in models:
        for arguments in commands(model):
            compared += 1
            old, new = run(options.old, arguments), run(options.new, arguments)
            if old != new and without_sentences(old) == without_sentences(new):
                reworded += 1
                print(f"reworded: effsparse {' '.join(arguments)}")
            elif old != new:
                different += 1
                print(f"different: effsparse {' '.join(arguments)} (exit {old[0]} and {new[0]})")
    print(f"{compared} commands on {len(models)} models compared: {different} different, {reworded} in sentences only")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
