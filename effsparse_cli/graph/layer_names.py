"""Select layers by name patterns, in which * matches any text and ? one character."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from effsparse_cli.errors import UsageError


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def select_names(names: Sequence[str], patterns: Sequence[str], option: str) -> set[str]:
    """Return the names that match any pattern, or all names if there are no patterns."""
    check_patterns(names, patterns, option)
    return {name for name in names if not patterns or matches(name, patterns)}


def check_patterns(names: Sequence[str], patterns: Sequence[str], option: str) -> None:
    """Raise an error if a pattern matches no name."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"{option} {pattern}: no layer name matches. The closest names are {closest_names(pattern, names)}. A "
                "pattern must match the whole name: * matches any text, ? one character"
            )


def closest_names(pattern: str, names: Sequence[str]) -> str:
    return ", ".join(difflib.get_close_matches(pattern.strip("*"), names, n=3, cutoff=0.3) or names[:3])
