"""What in an archive of torch.export.save could run code. It is a zip of JSON and raw weights, but torch's loader
also takes pickles, compiled libraries, functions by name and sizes as Python expressions."""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

MEMBERS = re.compile(
    r"(models/\w+\.json|data/weights/(\w+_weights_config\.json|weight_\d+)|data/sample_inputs/\w+\.pt|"
    r"data/constants/(\w+_constants_config\.json|tensor_\d+)|archive_format|archive_version|byteorder|version|"
    r"\.data/\w+|\.format_version|\.storage_alignment|extra/.*)$"
)
TARGETS = re.compile(r"(torch\.ops\.[A-Za-z]\w*\.\w+(\.\w+)?|_operator\.[a-z]\w*|math\.[a-z]\w*)$")
ARITHMETIC = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "PythonMod", "FloorDiv", "CleanDiv", "Max",
    "Min", "Abs", "Where", "ModularIndexing", "TruncToInt", "CeilToInt", "FloorToInt", "CeilDiv", "IntTrueDiv", "Not",
    "FloatTrueDiv", "Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And",
    "Or",
}  # fmt: skip
"""What a symbolic size may call: the loader evaluates sizes as Python expressions."""


def dangers(archive: zipfile.ZipFile) -> Iterator[str]:
    for name in archive.namelist():
        inner = name.partition("/")[2] if "/" in name else name
        if not MEMBERS.match(inner):
            yield f"it holds {inner}"
        elif inner.startswith("data/sample_inputs/") and not _is_data(archive.read(name)):
            yield "its sample inputs are a pickle that asks for code"
        elif inner.endswith(".json"):
            yield from _dangers_in_json(archive.read(name), inner)


def _is_data(content: bytes) -> bool:
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception:
        return False
    return True


def _dangers_in_json(content: bytes, name: str) -> Iterator[str]:
    try:
        parsed = json.loads(content)
    except ValueError:
        yield f"{name} is no JSON"
        return
    for key, value in _entries(parsed):
        if key == "use_pickle" and value:
            yield f"{name} says that a weight is pickled"
        elif key == "operator" and not TARGETS.match(str(value)):
            yield f"an operator of its graph is {value}"
        elif key == "expr_str" and not _is_arithmetic(str(value)):
            yield f"a size of its graph is {value}"
        elif key == "range_constraints" and not all(_is_arithmetic(symbol) for symbol in value):
            yield "the range of a size is no range"
        elif key in ("__enum__", "default_factory_module"):
            yield "its structure names a class to import"


def _is_arithmetic(expression: str) -> bool:
    """Numbers, symbols and sums and products of them."""
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in ARITHMETIC:
                continue
            case ast.Name(id=name) if name in ARITHMETIC or re.fullmatch(r"[a-z]+\d+", name):
                continue
            case ast.Constant(value=str(text)) if re.fullmatch(r"\w+", text):
                continue
            case ast.Constant(value=int() | float()):
                continue
            case ast.Expression() | ast.keyword() | ast.BinOp() | ast.UnaryOp() | ast.operator() | ast.unaryop():
                continue
            case ast.Load():
                continue
            case _:
                return False
    return True


def _entries(parsed: object) -> Iterator[tuple[str, Any]]:
    stack: list[Any] = [parsed]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield from item.items()
            if "target" in item and "inputs" in item:
                yield "operator", item["target"]
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and ("__enum__" in item or "default_factory_module" in item):
            yield "__enum__", item
