"""Rules and what breaks them: a measured model in, findings out. One file per rule in `rules/`, listed here."""

from __future__ import annotations

from effsparse_cli.check.rule import Rule
from effsparse_cli.check.rules import (
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
