"""docs/torch_operators.md is generated from the table of operators: `python -m tests.formats.torch.test_operator_table`
writes it. Every operator in the table is one of torch's."""

from __future__ import annotations

from pathlib import Path
from pkgutil import iter_modules

import pytest
import torch

from effsparse_cli.formats.torch import ops
from effsparse_cli.formats.torch.operators import OPERATORS, family, find_operator

DOCUMENT = Path(__file__).parents[3] / "docs" / "torch_operators.md"
OPENING = """# PyTorch operators

The aten operators that the torch front end lowers, by family. A name stands for all of its overloads and its in-place
form; an overload that differs is listed separately (`max.dim`). The operators of the last family have no lowering: they
are evaluated on constants, and with live inputs they are Opaque, like all operators that are not listed. Opaque means
that every output depends on every input and on every weight among them: sound, never exact, and named in the report.

| family | operators |
|---|---|
"""


def document() -> str:
    families: dict[str, list[str]] = {}
    for operator in OPERATORS.values():
        families.setdefault(operator.family, []).append(operator.name)
    rows = sorted(families.items(), key=lambda row: (row[0] == "evaluated", row[0]))
    return OPENING + "".join(f"| {name} | {', '.join(f'`{each}`' for each in sorted(some))} |\n" for name, some in rows)


def test_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_families_are_the_modules() -> None:
    assert {operator.family for operator in OPERATORS.values()} == {
        module.name for module in iter_modules(ops.__path__)
    }


def test_operator_is_in_the_table_once() -> None:
    with pytest.raises(ValueError, match="relu is defined twice"):
        family("elementwise")("relu")(lambda: None)


def test_names_are_those_of_torch() -> None:
    known = {name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names()}
    known |= {name.partition(".")[0] for name in known}
    unknown = [name for name in OPERATORS if name.removesuffix(".default") not in known and f"{name}_" not in known]
    assert unknown == []


def test_in_place_and_copying_forms_are_found() -> None:
    assert find_operator(torch.ops.aten.relu_.default) is OPERATORS["relu"]
    assert find_operator(torch.ops.aten.permute_copy.default) is OPERATORS["permute"]
    assert find_operator(torch.ops.aten.max.dim) is OPERATORS["max.dim"]
    assert find_operator(torch.ops.aten._print.default) is None


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
