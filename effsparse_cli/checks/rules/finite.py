"""EFF009: a weight holds NaN or infinite values."""

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
        nans, infinite = _odd(layer.values())
        found = [f"{thousands(n)} {what}" for n, what in ((nans, "NaN"), (infinite, "infinite")) if n]
        if found:
            noun = "value" if nans + infinite == 1 else "values"
            yield Finding(CODE, f"holds {' and '.join(found)} {noun}", name, measured=nans + infinite, bound=0)


def _odd(values: NDArray[Any]) -> tuple[int, int]:
    """How many are NaN, how many infinite."""
    # Narrow floats come to numpy by extension and have no kind of their own.
    if values.dtype.kind == "V" and "float" in values.dtype.name:
        values = values.astype(np.float32)
    if values.dtype.kind not in "fc":
        return 0, 0
    # One sum first: it is finite unless a value is not, or the values are huge.
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
NaN and infinite weights count as kept, and make every output that they reach useless. A NaN behind a mask of
zero is one too: NaN times 0 is NaN. Runs by default, on the weights of connections and embeddings.

Example: a half-precision export turned a weight of 70,000 into infinity.""",
    ),
    always,
    check,
)
