"""Compares the outputs of a model before and after compaction."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.folding.verify import Agreement, ChangedError, Outputs, compare


def agree(before: Sequence[Outputs], after: Sequence[Outputs], epsilon: float) -> Agreement:
    """Return the largest difference between outputs, one list per run; raise if it is more than rounding. `epsilon` is
    that of the data type that the model computes in."""
    try:
        return compare(before, after, epsilon)
    except ChangedError as error:
        raise ChangedError(str(error).replace("the repaired model", "the smaller model")) from None
