"""Outputs of a model that the user selects."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.errors import UsageError


def choose_outputs(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the outputs selected by name or position, in the model's order; all if none is selected."""
    chosen = set()
    for want in wanted:
        if want not in names and not (want.isdigit() and int(want) < len(names)):
            raise UsageError(f"The model has no output {want!r}. Its outputs: {', '.join(names)}.")
        chosen.add(want if want in names else names[int(want)])
    return [name for name in names if not chosen or name in chosen]
