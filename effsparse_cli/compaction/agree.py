"""Outputs before and after enter, the largest difference leaves; one beyond rounding is an error."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.folding.verify import Agreement, ChangedError, Outputs, compare


def agree(before: Sequence[Outputs], after: Sequence[Outputs], epsilon: float) -> Agreement:
    """One list of outputs per run; `epsilon` is that of the type that the model computes in."""
    try:
        return compare(before, after, epsilon)
    except ChangedError as error:
        raise ChangedError(str(error).replace("the repaired model", "the smaller model")) from None
