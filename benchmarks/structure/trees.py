"""Edit nested dicts and lists, and files that hold such a tree: JSON, headers of safetensors files, TOML."""

from __future__ import annotations

import copy
import json
import math
import random
import struct
import tomllib
from typing import Any

DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31, 2**32, 2**63 - 1, 2**64, 10**12, -(2**63), 10**30)
STRINGS = (
    "", "x", "weight", "0", "-1", "F32", "F64", "BOOL", "I64", "F8_E4M3", "../../out", "/etc/hostname", "a\nb",
    "\x1b[31mred", "::error::x", "=1+1", "\ud800", "\u202e", "NaN", "x" * 5000, "__metadata__", ".", "nul\0byte",
)  # fmt: skip
ODD: tuple[Any, ...] = (*NUMBERS, *STRINGS, None, True, False, 1.5, -0.0, 1e308, float("nan"), float("inf"), [], {})

Slot = tuple[Any, Any]
"""A container and a key in it."""


def edit(tree: Any, dice: random.Random) -> Any:
    """Return a copy of the tree with one change."""
    tree = copy.deepcopy(tree)
    found = list(slots(tree))
    if not found:
        return dice.choice(ODD)
    container, key = dice.choice(found)
    other_container, other_key = dice.choice(found)
    match dice.randrange(8):
        case 0:
            del container[key]
        case 1 | 2:
            container[key] = vary(container[key], dice)
        case 3:
            container[key] = copy.deepcopy(other_container[other_key])
        case 4:
            container[key] = copy.deepcopy(dice.choice((*ODD, DEEP)))
        case 5:
            container[key] = dice.choice(([container[key]], {"x": container[key]}, [container[key]] * 3))
        case 6 if isinstance(container, dict):
            container[dice.choice((*STRINGS, str(other_key)))] = container.pop(key)
        case 6:
            container.insert(key, copy.deepcopy(container[key]))
        case _:
            swapped = copy.deepcopy(other_container[other_key])
            other_container[other_key] = copy.deepcopy(container[key])
            if key in (container if isinstance(container, dict) else range(len(container))):
                container[key] = swapped
    return tree


def vary(value: Any, dice: random.Random) -> Any:
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return dice.choice(
                (value + 1, value - 1, -value, value * 2, value * 1000, dice.choice(NUMBERS), float(value))
            )
        case str():
            return dice.choice((value[:-1], value + "x", value.upper(), value * 2, dice.choice(STRINGS)))
        case list():
            return dice.choice((value[:-1], value + value[-1:], value[::-1], []))
        case dict():
            return dict(list(value.items())[: len(value) // 2])
        case _:
            return dice.choice(ODD)


def slots(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from slots(value)


def edit_json(content: bytes, dice: random.Random) -> bytes:
    """Edit a JSON file one to three times; rarely, make it invalid."""
    tree = json.loads(content)
    for _ in range(dice.choice((1, 1, 2, 3))):
        tree = edit(tree, dice)
    text = json.dumps(tree)
    if dice.random() < 0.06:
        text = dice.choice((text + text, text[:-1], "\ufeff" + text, "[" * 5000, text.replace('"', "'"), '{"a":1,' * 2))
    return text.encode("utf-8", "surrogatepass")


def edit_safetensors(content: bytes, dice: random.Random) -> bytes:
    """Edit the header of a safetensors file, usually with a correct length."""
    (length,) = struct.unpack("<Q", content[:8])
    header = content[8 : 8 + length]
    header = _edit_consistently(header, dice) if dice.random() < 0.4 else edit_json(header, dice)
    if dice.random() < 0.5:
        header += b" " * (-len(header) % 8)
    stated = len(header) if dice.random() < 0.92 else dice.choice((0, 1, length, len(header) + 8, 2**40, 2**63))
    data = content[8 + length :]
    if dice.random() < 0.1:
        data = dice.choice((data[:-4], data + b"\0" * 8, b""))
    return struct.pack("<Q", stated) + header + data


def _edit_consistently(header: bytes, dice: random.Random) -> bytes:
    """Edit tensors so that offsets and sizes still agree."""
    tree = json.loads(header)
    names = [name for name in tree if name != "__metadata__"]
    one, other = dice.choice(names), dice.choice(names)
    entry = tree[one]
    match dice.randrange(7):
        case 0:
            entry["shape"] = entry["shape"][::-1]
        case 1:
            entry["shape"] = dice.choice(([*entry["shape"], 1], [1, *entry["shape"]], [math.prod(entry["shape"])]))
        case 2:
            entry["dtype"] = dice.choice({1: ("U8", "I8", "BOOL", "F8_E4M3")}.get(_width(entry), ("I32", "U32", "F32")))
        case 3:
            tree[one], tree[other] = tree[other], tree[one]
        case 4:
            tree[dice.choice((*STRINGS[:12], f"{one}_mask", f"{one}_orig", f"module.{one}"))] = tree.pop(one)
        case 5:
            tree["__metadata__"] = {dice.choice(STRINGS): dice.choice(STRINGS) for _ in range(3)}
        case _:
            end = max(tree[name]["data_offsets"][1] for name in names)
            tree["empty"] = {"dtype": "F32", "shape": [0, 7], "data_offsets": [end, end]}
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _width(entry: dict[str, Any]) -> int:
    start, end = entry["data_offsets"]
    width: int = (end - start) // max(math.prod(entry["shape"]), 1)
    return width


def edit_toml(content: bytes, dice: random.Random) -> bytes:
    """Edit values of a TOML file, or delete, duplicate or swap lines."""
    if dice.random() < 0.6:
        tree = tomllib.loads(content.decode())
        for _ in range(dice.choice((1, 1, 2))):
            tree = edit(tree, dice)
        return (
            _toml(tree).encode("utf-8", "surrogatepass")
            if isinstance(tree, dict)
            else str(tree).encode("utf-8", "replace")
        )
    lines = content.decode().splitlines()
    i, j = (dice.randrange(len(lines)) for _ in range(2))
    match dice.randrange(4):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case _:
            lines[i] = lines[i].replace("=", dice.choice((" ", "= [", "= {", ".x =", "= -", "=="))) + dice.choice(
                ("", "]", '"')
            )
    return "\n".join(lines).encode()


def _toml(tree: dict[str, Any], path: str = "") -> str:
    """Write the subset of TOML that the samples use; values that TOML lacks become strings."""
    plain = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    text = "".join(f"{json.dumps(str(key))} = {_toml_value(value)}\n" for key, value in plain.items())
    for key, value in tree.items():
        if isinstance(value, dict):
            inner = f"{path}.{json.dumps(str(key))}" if path else json.dumps(str(key))
            text += f"[{inner}]\n" + _toml(value, inner)
    return text


def _toml_value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() | int():
            return str(value)
        case list():
            return "[" + ", ".join(map(_toml_value, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml_value(v)}" for k, v in value.items()) + "}"
        case _:
            return json.dumps(str(value))
