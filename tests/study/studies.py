"""Study files for tests, as Python objects and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from effsparse_cli.study.file import Study, parse_study

RECIPE = {"epochs": 160, "drops": [41, 83, 125], "batch": 100, "lr": 0.1, "momentum": 0.9, "decay": 5e-4}
BASE: dict[str, Any] = {
    "model": "lenet-300-100",
    "data": {"kind": "mnist", "path": "data/mnist"},
    "compressions": [10, 100],
    "seeds": 2,
    "methods": ["snip", {"method": "random", "lsq": ["igq", "from:synflow"]}],
}


def find_recipe(model: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**RECIPE, **changes}


def to_toml(document: Mapping[str, Any]) -> str:
    return "\n".join(f"{_key(name)} = {_value(value)}" for name, value in document.items()) + "\n"


def _key(name: str) -> str:
    return json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_value(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def parse(document: Mapping[str, Any]) -> Study:
    return parse_study(to_toml(document), Path("study.toml"))
