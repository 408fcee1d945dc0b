"""The public functions of `effsparse_cli` under the name of the project: `import effsparse`."""

from effsparse_cli import (
    Analyzer,
    __version__,
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
