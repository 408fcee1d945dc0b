"""EFF009: a weight contains NaN or infinite values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.checks.rule import Rule, Subject, always
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import thousands

CODE = "EFF009"


def check(subject: Subject) -> Iterator[Finding]:
    for name, layer in subject.graph.layers.items():
        if layer.values is None or (layer.finite is not None and layer.finite()):
            continue
        nans, infinite = _count_nonfinite(layer.values())
        parts = [f"{thousands(n)} {kind}" for n, kind in ((nans, "NaN"), (infinite, "infinite")) if n]
        if parts:
            noun = "value" if nans + infinite == 1 else "values"
            yield Finding(CODE, f"contains {' and '.join(parts)} {noun}", name, measured=nans + infinite, bound=0)


def _count_nonfinite(values: NDArray[Any]) -> tuple[int, int]:
    """Return the numbers of NaN and of infinite values."""
    # Narrow floats are extension types in numpy, without a kind of their own.
    if values.dtype.kind == "V" and "float" in values.dtype.name:
        values = values.astype(np.float32)
    if values.dtype.kind not in "fc":
        return 0, 0
    # One pass is usually enough: the sum is finite unless a value is not, or the sum overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return 0, 0
    return int(np.isnan(values).sum()), int(np.isinf(values).sum())


RULE = Rule(
    About(
        CODE,
        "not-finite",
        "Weights must be finite numbers.",
        """\
NaN and infinite weights count as kept, and every output that depends on them is useless. This includes masked weights,
because NaN times 0 is NaN. Runs by default, on all weights and embedding tables.

Example: a half-precision export turned a weight of 70,000 into infinity.""",
    ),
    always,
    check,
)
