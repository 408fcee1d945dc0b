"""The public functions, for live PyTorch modules and for files. `import effsparse` gives them too.

Importing this module loads neither torch nor numpy: each function imports what it needs when it is called. Commands
call the same functions, in the modules of this folder, where errors name options instead of arguments.
"""

from __future__ import annotations

from effsparse_cli.api import (
    annotating,
    checking,
    compacting,
    masks,
    measuring,
    pruning,
    repairing,
    studying,
    surveying,
)
from effsparse_cli.api.words import in_python
from effsparse_cli.training.analyzer import Analyzer

load = in_python(measuring.load)
analyze = in_python(measuring.analyze)
prune = in_python(pruning.prune)
repair = in_python(repairing.repair)
compact = in_python(compacting.compact)
annotate = in_python(annotating.annotate)
quotas = in_python(surveying.quotas)
curve = in_python(surveying.curve)
diff = in_python(measuring.diff)
check = in_python(checking.check)
hold = in_python(masks.hold)
apply_masks = in_python(masks.apply_masks)
finalize = masks.finalize
run_study = in_python(studying.run_study)
read_study = in_python(studying.read_study)

__all__ = [
    "Analyzer",
    "analyze",
    "annotate",
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
    "read_study",
    "repair",
    "run_study",
]
