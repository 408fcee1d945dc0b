"""Read the claims about a model: sparsities and patterns declared in the config.json or model card next to it, or
mentioned in the prose of the card or in the name of the model.

Hugging Face checkpoints have both files in the model's folder. compressed-tensors declares its sparsity and structure
in `sparsity_config`, alone or within `quantization_config` or `compression_config`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from effsparse_cli import files
from effsparse_cli.checks.prose import in_name, in_prose

KEYS = {
    "sparsity": "direct",
    "global_sparsity": "direct",
    "direct_sparsity": "direct",
    "effective_sparsity": "effective",
}
PARENT_KEYS = ("quantization_config", "compression_config")
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
LINE = re.compile(r"""^(\w+)\s*:\s*["']?\s*([0-9.]+\s*%?)\s*["']?\s*(?:#.*)?$""")
SHARE = re.compile(r"[0-9]{0,20}\.?[0-9]{0,40}(?:e-?[0-9]{1,2})?\s*%?", re.IGNORECASE)
LARGEST = 1 << 24
STRUCTURE = re.compile(r"[1-9]\d*:[1-9]\d*")


@dataclass(frozen=True)
class Claim:
    """`kind` is "direct" or "effective": the sparsity that is claimed to be at least `share`. A claim is `declared` in
    a machine-readable form, or else mentioned in prose or a name."""

    kind: str
    share: Fraction
    source: str
    declared: bool = True


@dataclass(frozen=True)
class Structure:
    """A claimed N:M pattern; `targets` and `ignore` are layer names, patterns (re:...) or classes (Linear)."""

    pattern: str
    source: str
    targets: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    declared: bool = True

    def covers(self, layer: str, op: str) -> bool:
        chosen = not self.targets or any(_matches(target, layer, op) for target in self.targets)
        return chosen and not any(_matches(target, layer, op) for target in self.ignore)


@dataclass(frozen=True)
class Claims:
    sparsities: tuple[Claim, ...] = ()
    structures: tuple[Structure, ...] = ()
    unreadable: tuple[str, ...] = ()


def claims_beside(model: Path) -> Claims:
    """Read the claims about a model file or model folder."""
    folder = model if os.path.isdir(model) else model.parent
    claims: list[Claim] = []
    structures: list[Structure] = []
    unreadable: list[str] = []
    config, card = folder / "config.json", folder / "README.md"
    if config.is_file():
        try:
            table = json.loads(_text(config))
        except (OSError, ValueError, RecursionError) as error:
            unreadable.append(f"{config} ({str(error)[:200]})")
        else:
            claims.extend(_sparsities(table, str(config)))
            structures.extend(_structures(table, str(config)))
    mentions = list(in_name(model))
    if card.is_file():
        try:
            text = _text(card)
        except OSError as error:
            unreadable.append(f"{card} ({error.strerror or error})")
        else:
            claims.extend(_in_front_matter(text, str(card)))
            mentions.extend(in_prose(_after_front_matter(text), card))
    claims += [Claim(x.kind, x.share, x.source, declared=False) for x in mentions if x.share is not None]
    structures += [Structure(x.pattern, x.source, declared=False) for x in mentions if x.pattern]
    return Claims(tuple(claims), tuple(structures), tuple(unreadable))


def _text(file: Path) -> str:
    with files.note_read(file).open("rb") as opened:
        return opened.read(LARGEST).decode("utf-8", errors="replace")


def _after_front_matter(text: str) -> str:
    """Return the prose after as many empty lines as the front matter has, so that line numbers stay correct."""
    front = FRONT_MATTER.match(text)
    return "\n" * front[0].count("\n") + text[front.end() :] if front else text


def _sparsities(table: object, source: str) -> Iterator[Claim]:
    if not isinstance(table, dict):
        return
    tables = [("", table), *((f"{'.'.join(path)}.", config) for path, config in _sparsity_configs(table))]
    for prefix, each in tables:
        for name, kind in KEYS.items():
            share = _share(each.get(name))
            if share is not None:
                yield Claim(kind, share, f"{prefix}{name} in {source}")


def _structures(table: object, source: str) -> Iterator[Structure]:
    for path, config in _sparsity_configs(table) if isinstance(table, dict) else ():
        pattern = config.get("sparsity_structure")
        # compressed-tensors writes "0:0" and "unstructured" where there is no pattern.
        if isinstance(pattern, str) and STRUCTURE.fullmatch(pattern):
            targets, ignore = (_strings(config.get(key)) for key in ("targets", "ignore"))
            yield Structure(pattern, f"{'.'.join(path)}.sparsity_structure in {source}", targets, ignore)


def _sparsity_configs(table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for parent in ((), *((name,) for name in PARENT_KEYS)):
        place: Any = table
        for name in (*parent, "sparsity_config"):
            place = place.get(name) if isinstance(place, dict) else None
        # Quantized models have one of format "dense", whose numbers are counted differently: it claims nothing.
        if isinstance(place, dict) and place.get("format") != "dense":
            yield (*parent, "sparsity_config"), place


def _in_front_matter(text: str, source: str) -> Iterator[Claim]:
    """Read `key: number` lines of the front matter."""
    front = FRONT_MATTER.match(text)
    for line in front[1].splitlines() if front else ():
        match = LINE.match(line)
        share = _share(match[2]) if match else None
        if match and match[1] in KEYS and share is not None:
            yield Claim(KEYS[match[1]], share, f"{match[1]} in {source}")


def _share(value: object) -> Fraction | None:
    """Parse 0.99, "0.99" or "99 %". A number above 1 can only be a percentage."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip() if not isinstance(value, int) or abs(value) <= 100 else ""
    if not SHARE.fullmatch(text):
        return None
    try:
        share = Fraction(text.removesuffix("%").strip())
    except (ValueError, ZeroDivisionError):
        return None
    share = share / 100 if text.endswith("%") or share > 1 else share
    return share if 0 <= share <= 1 else None


def _strings(value: object) -> tuple[str, ...]:
    return tuple(x for x in value if isinstance(x, str)) if isinstance(value, list) else ()


def _matches(target: str, layer: str, op: str) -> bool:
    if target.startswith("re:"):
        try:
            return re.match(target.removeprefix("re:"), layer) is not None
        except (re.error, RecursionError, OverflowError):
            return False
    return target == layer or target.lower() == op.lower()
