"""The table of operators: no operator twice, none that torch does not have."""

from __future__ import annotations

import pytest
import torch

from effsparse_cli.formats.torch.operators import OPERATORS, family, find_operator
from effsparse_cli.formats.torch.table import operators


def test_operators_are_registered_once() -> None:
    with pytest.raises(ValueError, match="relu is defined twice"):
        family("elementwise")("relu")(lambda: None)


def test_families_hold_the_whole_table() -> None:
    families = operators()
    assert sum(len(names) for names in families.values()) == len(OPERATORS)
    assert "linear" in families["contraction"]
    assert list(families) == sorted(families)


def test_registered_names_are_torchs() -> None:
    known = {name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names()}
    plain = {name.partition(".")[0] for name in known} | known
    strange = [name for name in OPERATORS if name.removesuffix(".default") not in plain and f"{name}_" not in plain]
    assert strange == []


def test_in_place_and_copying_forms_are_found() -> None:
    assert find_operator(torch.ops.aten.relu_.default) is OPERATORS["relu"]
    assert find_operator(torch.ops.aten.permute_copy.default) is OPERATORS["permute"]
    assert find_operator(torch.ops.aten.max.dim) is OPERATORS["max.dim"]
    assert find_operator(torch.ops.aten._print.default) is None
