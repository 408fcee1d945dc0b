"""The tables of rules, one module each, and of the bounds that they check.

Both are read by the command line, so rules are named here and imported by `load_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.checks.rule import Rule

RULES = {
    "EFF001": "disconnected",
    "EFF002": "collapsed",
    "EFF003": "effective",
    "EFF004": "gap",
    "EFF005": "layers",
    "EFF006": "claims",
    "EFF007": "pattern",
    "EFF008": "regression",
    "EFF009": "finite",
    "EFF010": "masks",
    "EFF011": "unknown",
    "EFF012": "direct",
}


@dataclass(frozen=True)
class Bound:
    """What the command line, the project file and other rules must know about a bound."""

    help: str
    example: str
    is_number: bool = False
    """Whether it is a number of connections; otherwise it is a fraction between 0 and 1."""
    for_layers: bool = False
    """Whether EFF005 checks it for single layers, so that the project file may set it for them."""
    needs_known: bool = False
    """Whether unknown operators can hide that it is violated: EFF011 is then an error."""


BOUNDS: dict[str, Bound] = {
    "min-effective": Bound("Minimum effective sparsity.", "0.99", for_layers=True),
    "max-effective": Bound("Maximum effective sparsity.", "0.999", for_layers=True, needs_known=True),
    "min-direct": Bound("Minimum direct sparsity.", "0.99", for_layers=True),
    "max-direct": Bound("Maximum direct sparsity.", "0.999", for_layers=True),
    "max-gap": Bound("Maximum gap between effective and direct sparsity.", "0.005", for_layers=True, needs_known=True),
    "max-inactive": Bound(
        "Maximum number of inactive connections.", "0", is_number=True, for_layers=True, needs_known=True
    ),
}
"""The options of `effsparse check`, which are also keys of the project file."""


@cache
def load_rules() -> dict[str, Rule]:
    """Return the rules by code."""
    return {code: import_module(f"{__name__}.{module}").RULE for code, module in RULES.items()}
