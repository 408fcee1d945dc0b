"""docs/onnx_operators.md is generated from the table of operators: `python -m tests.formats.onnx.test_operator_table`
writes it. Every operator of ONNX's default domain is in the table."""

from __future__ import annotations

from pathlib import Path

import onnx.defs
import pytest

from effsparse_cli.formats.onnx.operators import Operator, operator
from effsparse_cli.formats.onnx.ops import OPERATORS

DOCUMENT = Path(__file__).parents[3] / "docs" / "onnx_operators.md"
TITLES = {"": "ai.onnx, the default domain", "ai.onnx.ml": "ai.onnx.ml", "com.microsoft": "com.microsoft"}
TITLES |= {name: name for name in ("qonnx.custom_op.general", "qonnx.custom_op.channels_last")}
OPENING = """# ONNX operators

- *Primitives*: what the operator lowers to. Constants are computed when the model is loaded, so an operator without
  live inputs leaves nothing in the graph. Opaque means that every output depends on every input and on every weight
  among them: sound, never exact, and named in the report. Operators that are not listed are Opaque too.
- *Repair*: the role that the operator has there. `contraction`: constants are folded into its bias. `norm`: they are
  folded into its running mean. `lookup`: an embedding table.
- *Compaction*: how the operator moves data, which is the name of the rule that follows channels through it. Operators
  without a rule keep all of their channels.
"""


def role(operator: Operator) -> str:
    roles = {"contraction": operator.contraction, "norm": operator.norm, "lookup": operator.lookup}
    return ", ".join(name for name, known in roles.items() if known is not None)


def document() -> str:
    parts = [OPENING]
    for domain, title in TITLES.items():
        rows = sorted(
            (op.name, op.primitives, role(op), op.positions or "") for op in OPERATORS.values() if op.domain == domain
        )
        parts.append(f"## {title}\n\n| operator | primitives | repair | compaction |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n| {' | '.join(row)} |" for row in rows).replace("  |", " |") + "\n"
    return "\n".join(parts)


def test_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_default_domain_is_complete() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    assert known - {name for domain, name in OPERATORS if domain == ""} == set()


def test_document_has_every_domain() -> None:
    assert {domain for domain, _ in OPERATORS} == set(TITLES)


def test_operator_is_in_the_table_once() -> None:
    with pytest.raises(ValueError, match="Relu is already in the table"):
        operator("Relu", primitives="Join")(lambda call: 0)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
