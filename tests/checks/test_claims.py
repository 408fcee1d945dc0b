"""Claims are found in the files next to a model."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from effsparse_cli.checks.claims import Structure, claims_beside


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("sparsity: 0.9", Fraction(9, 10)),
        ("sparsity: 90%", Fraction(9, 10)),
        ("sparsity: '90 %'  # of the weights", Fraction(9, 10)),
        ("sparsity: 90", Fraction(9, 10)),
        ("sparsity: 1", Fraction(1)),
        ("sparsity: 0", Fraction(0)),
        ("effective_sparsity: 0.95", Fraction(95, 100)),
        ("sparsity: high", None),
        ("sparsity: 900", None),
        ("sparsity: 0.9.1", None),
        ("density: 0.9", None),
        ("  sparsity: 0.9", None),
    ],
)
def test_cards(tmp_path: Path, line: str, share: Fraction | None) -> None:
    (tmp_path / "README.md").write_text(f"---\n{line}\n---\ntext\n\nsparsity: 0.1\n")
    claims = claims_beside(tmp_path / "model.onnx")
    assert [claim.share for claim in claims.sparsities] == ([] if share is None else [share])


@pytest.mark.parametrize(
    ("config", "shares"),
    [
        ({"sparsity": 0.5, "effective_sparsity": 0.6}, [Fraction(1, 2), Fraction(3, 5)]),
        ({"sparsity": True}, []),
        ({"sparsity": {"type": "block"}}, []),
        ({"sparsity": -1}, []),
        ({"sparsity_config": {"global_sparsity": 0.5}}, [Fraction(1, 2)]),
        ({"sparsity_config": None, "quantization_config": 3}, []),
        ([0.5], []),
    ],
)
def test_configs(tmp_path: Path, config: object, shares: list[Fraction]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert [claim.share for claim in claims_beside(tmp_path / "model.onnx").sparsities] == shares


@pytest.mark.parametrize(("structure", "declared"), [("2:4", True), ("0:0", False), ("dense", False), (4, False)])
def test_structures(tmp_path: Path, structure: object, declared: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"sparsity_config": {"sparsity_structure": structure}}))
    assert bool(claims_beside(tmp_path / "model.onnx").structures) == declared


def test_layers_that_a_structure_covers() -> None:
    declared = Structure("2:4", "", targets=("Linear", "re:conv.*"), ignore=("lm_head",))
    assert declared.covers("layers.0.q_proj", "linear")
    assert declared.covers("conv1", "conv2d")
    assert not declared.covers("stem", "conv2d")
    assert not declared.covers("lm_head", "linear")
    assert Structure("2:4", "").covers("anything", "conv2d")


@pytest.mark.parametrize("parent", [None, "quantization_config", "compression_config"])
def test_a_dense_format_claims_nothing(tmp_path: Path, parent: str | None) -> None:
    """As in quantized models of compressed-tensors."""
    table = {"format": "dense", "global_sparsity": 0.14, "sparsity_structure": "2:4"}
    config = {"sparsity_config": table} if parent is None else {parent: {"sparsity_config": table}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    claims = claims_beside(tmp_path / "model.onnx")
    assert (claims.sparsities, claims.structures) == ((), ())


def test_claims_of_a_model_folder_are_inside_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"sparsity": 0.5}')
    (tmp_path / "README.md").write_text("---\nsparsity: 0.6\n---\n\nThis is a 70% sparse model.\n")
    claims = claims_beside(tmp_path)
    assert [(float(claim.share), claim.declared) for claim in claims.sparsities] == [
        (0.5, True),
        (0.6, True),
        (0.7, False),
    ]
    assert claims.sparsities[2].source == f'line 5 of {tmp_path / "README.md"} ("70% sparse")'
