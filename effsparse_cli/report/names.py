"""Select layers or tensors by name patterns."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from effsparse_cli.errors import UsageError


def select_names(names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that match any pattern, or all names if there are no patterns."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = difflib.get_close_matches(pattern.strip("*"), names, n=3, cutoff=0.3) or names[:3]
            raise UsageError(
                f"no layer name matches {pattern!r}. The closest names are {', '.join(close)}. A pattern matches the "
                "whole name: * stands for any text, ? for one character."
            )
    return {name for name in names if not patterns or any(fnmatchcase(name, p) for p in patterns)}
