"""Find sparsities and N:M patterns mentioned in the prose of a model card and in a model's name.

Only common phrases count, and a card that mentions several sparsities claims none of them: better to miss a claim than
to invent one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

NUMBER = r"(?P<number>\d{1,2}(?:\.\d{1,4})?)\s*(?:%|percent\b)"
NM = r"(?P<n>[1-9]):(?P<m>\d{1,2})"
MARKS = r"[*_`\s]{0,6}"
PHRASES = tuple(
    re.compile(phrase, re.IGNORECASE)
    for phrase in (
        # 90 % sparse, 90% unstructured sparsity, 95 % effective sparsity
        rf"(?<![\d.:-]){NUMBER}{MARKS}(?:(?:un|semi-)?structured|weight|global|overall|(?P<kind>effective))?"
        rf"{MARKS}(?:sparse\b|sparsity\b)",
        # Sparsity: 90 %, a sparsity of 90 %
        rf"(?:(?P<kind>effective)\s+)?\bsparsity{MARKS}(?:level|ratio)?{MARKS}(?::|=|\bof\b|\bis\b){MARKS}{NUMBER}",
        # Sparsity: 2:4
        rf"\bsparsity{MARKS}(?:pattern|type|structure)?{MARKS}(?::|=|\bis\b){MARKS}{NM}(?![:\d])",
        # 2:4 sparse, 2:4 semi-structured sparsity
        rf"(?<![\d:]){NM}{MARKS}(?:(?:semi-)?structured)?{MARKS}(?:sparse\b|sparsity\b)",
    )
)
NOT_THIS_MODEL = re.compile(
    r"\b(up to|at most|less than|more than|than|compar\w*|versus|vs|unlike|not|no|other|another|also|from|if|instead|"
    r"e\.g|example|between|range\w*|support\w*|paper|previous\w*|dense)\b",
    re.IGNORECASE,
)
"""Words before a phrase which show that it is not about this model."""
CONTEXT = 60
FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"\[[^\]\n]{0,300}\]\([^)\n]{0,500}\)|https?://\S{1,500}|<[^>\n]{0,300}>")
TABLE = re.compile(r"^\s*\|")

WORD = r"(?:sparse|sparsity|pruned?)"
IN_NAMES = re.compile(
    rf"(?<![A-Za-z]){WORD}[-_.]?(?:unstructured[-_.]?)?(?P<number>0\.\d{{1,4}}|[1-9]\d(?:\.\d{{1,3}})?(?=[-_.]|$))"
    r"(?![0-9A-Za-z])",
    re.IGNORECASE,
)
NM_IN_NAMES = re.compile(
    rf"(?<![0-9A-Za-z])(?P<n>[1-9])of(?P<m>\d{{1,2}})(?![0-9A-Za-z])"
    rf"|(?<![A-Za-z]){WORD}[-_]?(?P<n2>[1-9])[.:](?P<m2>4|8|16)(?![0-9A-Za-z.])",
    re.IGNORECASE,
)
SUFFIX = re.compile(r"(?<=.)\.[A-Za-z]\w*$")
GENERIC = {"model", "pytorch_model", "checkpoint", "weights", "best", "last", "final", "diffusion_pytorch_model"}
ROUND = {*range(20, 100, 5), 96, 97, 98, 99}
"""Sparsities that occur in names. Other numbers are versions, sizes or epochs."""


@dataclass(frozen=True)
class Mention:
    """A sparsity or a pattern, and where it was found."""

    source: str
    kind: str = "direct"
    share: Fraction | None = None
    pattern: str = ""


def in_prose(text: str, file: Path) -> list[Mention]:
    """Find what a card claims about its model. Code, links, tables and comparisons are ignored."""
    found: list[Mention] = []
    for number, line in _lines(text):
        for phrase in PHRASES:
            for match in phrase.finditer(line):
                before = line[max(0, match.start() - CONTEXT) : match.start()]
                if not NOT_THIS_MODEL.search(re.split(r"[.;!?]\s", before)[-1]):
                    mention = _mention(match, f'line {number} of {file} ("{" ".join(match[0].split())}")')
                    found += [mention] if mention is not None else []
    distinct = {(each.kind, each.share, each.pattern): each for each in reversed(found)}
    shares = {share for kind, share, _ in distinct if share is not None and kind == "direct"}
    several = len(shares) > 1
    return [x for x in reversed(distinct.values()) if not (several and x.kind == "direct" and x.share is not None)]


def in_name(model: Path) -> Iterator[Mention]:
    """Find what the name of a model's file or folder claims."""
    for name in _names(model):
        where = f"the name {name}"
        nm = NM_IN_NAMES.search(name)
        if nm is not None:
            pattern = _pattern(nm["n"] or nm["n2"], nm["m"] or nm["m2"])
            if pattern:
                yield Mention(where, pattern=pattern)
        for match in IN_NAMES.finditer(name):
            share = _named_share(match["number"])
            # pruned2.4 is a pattern; pruned_50.2of4 has both.
            if share is not None:
                yield Mention(where, share=share)
                break


def _lines(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not TABLE.match(line) and len(line) < 10_000:
            yield number, LINK.sub(" ", line)


def _mention(match: re.Match[str], source: str) -> Mention | None:
    groups = match.groupdict()
    if groups.get("n"):
        pattern = _pattern(groups["n"], groups["m"])
        return Mention(source, pattern=pattern) if pattern else None
    share = Fraction(groups["number"]) / 100
    return Mention(source, "effective" if groups.get("kind") else "direct", share) if share else None


def _pattern(n: str, m: str) -> str:
    return f"{n}:{m}" if int(n) < int(m) else ""


def _named_share(number: str) -> Fraction | None:
    value = Fraction(number)
    if value < 1:
        return value if value >= Fraction(1, 10) else None
    return value / 100 if value in ROUND or value > 90 else None


def _names(model: Path) -> list[str]:
    """Return the name of the file without its suffix, or of the folder. A file with a generic name, and a snapshot in
    the Hugging Face cache, take the name of the folder that contains them."""
    whole = model.absolute() if model.is_dir() else model.absolute().with_name(SUFFIX.sub("", model.name))
    if model.is_dir():
        whole = whole.parents[1] if whole.parent.name == "snapshots" and len(whole.parents) > 1 else whole
    elif whole.name.lower() in GENERIC:
        whole = whole.parent
    return [whole.name] if whole.name else []
