"""The table of operators in the docs is the one that the code has: `python -m tests.formats.onnx.test_operator_table`
writes it anew. Every operator of ONNX's default domain has its place in it."""

from __future__ import annotations

from pathlib import Path

import onnx.defs
import pytest

from effsparse_cli.formats.onnx.ops import TABLE
from effsparse_cli.formats.onnx.table import lowers

DOCUMENT = Path(__file__).parents[3] / "docs" / "onnx_operators.md"
TITLES = {"": "ai.onnx, the default domain", "ai.onnx.ml": "ai.onnx.ml", "com.microsoft": "com.microsoft"}
TITLES |= {name: name for name in ("qonnx.custom_op.general", "qonnx.custom_op.channels_last")}
OPENING = """# ONNX operators, and what they become

Every operator is written in the graph's primitives; the names of those that it needs are given. Constants are
computed when the model is read, so an operator without live inputs leaves nothing in the graph. Opaque means that
every output depends on every input and on every weight that goes in: sound, never exact, and named in the report.
Operators that are not listed here are Opaque too.
"""


def document() -> str:
    parts = [OPENING]
    for domain, title in TITLES.items():
        rows = sorted((name, entry.primitive) for (place, name), entry in TABLE.items() if place == domain)
        parts.append(f"## {title}\n\n| operator | primitives |\n|---|---|")
        parts[-1] += "".join(f"\n| {name} | {primitive} |" for name, primitive in rows) + "\n"
    return "\n".join(parts)


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_every_operator_of_the_default_domain_has_a_place() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    assert known - {name for domain, name in TABLE if domain == ""} == set()


def test_every_domain_is_in_the_document() -> None:
    assert {domain for domain, _ in TABLE} == set(TITLES)


def test_an_operator_has_one_lowering() -> None:
    with pytest.raises(ValueError, match="Relu has two lowerings"):
        lowers("Relu", primitive="Join")(lambda call: 0)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
