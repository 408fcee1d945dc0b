"""Measure and increase the effective sparsity of pruned neural networks.

import effsparse
print(effsparse.analyze(model, example_input))
"""

from effsparse_cli.api import (
    Analyzer,
    analyze,
    apply_masks,
    check,
    compact,
    curve,
    diff,
    finalize,
    hold,
    load,
    prune,
    quotas,
    repair,
)
from effsparse_cli.version import __version__

__all__ = [
    "Analyzer",
    "__version__",
    "analyze",
    "apply_masks",
    "check",
    "compact",
    "curve",
    "diff",
    "finalize",
    "hold",
    "load",
    "prune",
    "quotas",
    "repair",
]
