"""Arguments as people write them: exact numbers (0.999 and 99.9% are 999/1000), and choices in any case."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fractions import Fraction

from effsparse_cli.errors import UsageError

NUMBER = re.compile(r"[+-]?(\d{1,50}(\.\d{0,50})?|\.\d{1,50})(e[+-]?\d{1,2})?|\d{1,50}/0*[1-9]\d{0,50}", re.IGNORECASE)
"""Short enough that an exact fraction stays small."""
OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?: ([^\sa-z-][^\s:;,]*))?")
OUTPUT = re.compile(r"(?<![\w-])-o (FILE(\.\w+)?|\S+)")


def parse_share(value: str | float | Fraction, option: str) -> Fraction:
    """Return a number between 0 and 1. A percent sign divides by 100."""
    text = str(value).strip()
    number = parse_number(text.removesuffix("%"), f"{option} {value}", "0.999 or 99.9%")
    share = number / 100 if text.endswith("%") else number
    if 0 <= share <= 1:
        return share
    percent = text.removesuffix("%")
    if 1 < number <= 100 and not text.endswith("%"):
        meant = f"{float(number / 100):.10g}"
        raise UsageError(f"{option} {value}: must be between 0 and 1; did you mean {percent}% ({meant})?")
    raise UsageError(f"{option} {value}: must be between 0 and 1, for example 0.999 or 99.9%")


def parse_number(text: str, what: str, example: str) -> Fraction:
    if not NUMBER.fullmatch(text.strip()):
        raise UsageError(f"{what}: not a number: use {example}")
    return Fraction(text.strip())


def choose(value: str, choices: Iterable[str], option: str) -> str:
    """Return the choice that a user means, in any case. Raise an error with a suggestion if there is none."""
    known = list(choices)
    if value.lower() in known:
        return value.lower()
    close = difflib.get_close_matches(value.lower(), known, n=1)
    suggestion = f"did you mean {close[0]}? Choices" if close else "choices"
    raise UsageError(f"{option} {value}: unknown; {suggestion}: {', '.join(known)}")


def to_arguments(message: str) -> str:
    """Replace `--target 0.99` by `target=0.99` and `--only` by `only`."""

    def argument(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        return f"{name}={match[2]}" if match[2] else name

    return OUTPUT.sub(r"output=\1", OPTION.sub(argument, message))
