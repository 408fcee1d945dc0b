"""The table of rules, one module each."""

from __future__ import annotations

from effsparse_cli.checks.rule import Rule
from effsparse_cli.checks.rules import (
    claims,
    collapsed,
    direct,
    disconnected,
    effective,
    finite,
    gap,
    layers,
    masks,
    pattern,
    regression,
    unknown,
)

RULES: dict[str, Rule] = {
    "EFF001": disconnected.RULE,
    "EFF002": collapsed.RULE,
    "EFF003": effective.RULE,
    "EFF004": gap.RULE,
    "EFF005": layers.RULE,
    "EFF006": claims.RULE,
    "EFF007": pattern.RULE,
    "EFF008": regression.RULE,
    "EFF009": finite.RULE,
    "EFF010": masks.RULE,
    "EFF011": unknown.RULE,
    "EFF012": direct.RULE,
}
