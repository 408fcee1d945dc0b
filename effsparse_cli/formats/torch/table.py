"""The operators that the torch front end knows, by family: the source of the table in the documentation."""

from __future__ import annotations

from effsparse_cli.formats.torch import ops  # noqa: F401  importing it fills the table
from effsparse_cli.formats.torch.operators import OPERATORS


def operators() -> dict[str, list[str]]:
    """Family -> aten names, both sorted. A name stands for all its overloads and its in-place form; where one
    overload differs from the others it is listed with its own name ("max.dim")."""
    families: dict[str, list[str]] = {}
    for name, operator in OPERATORS.items():
        families.setdefault(operator.family, []).append(name)
    return {family: sorted(names) for family, names in sorted(families.items())}
