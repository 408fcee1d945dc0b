"""Which phrases and names count as claims about a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from effsparse_cli.checks.prose import in_name, in_prose


def claims_in(text: str) -> list[str]:
    mentions = in_prose(text, Path("README.md"))
    return [x.pattern or f"{'effective ' if x.kind == 'effective' else ''}{float(x.share or 0):g}" for x in mentions]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Sparsity: 2:4", ["2:4"]),
        ("- **Sparsity:** 2:4", ["2:4"]),
        ("This is the 2:4 sparse version.", ["2:4"]),
        ("pruned with 2:4 semi-structured sparsity", ["2:4"]),
        ("A 90 % sparse model.", ["0.9"]),
        ("A 90% sparse model, pruned to 90% unstructured sparsity.", ["0.9"]),
        ("pruned to 97.5% sparsity", ["0.975"]),
        ("**Sparsity**: 80%", ["0.8"]),
        ("with a sparsity of 75 percent", ["0.75"]),
        ("It has 95 % effective sparsity.", ["effective 0.95"]),
        ("90% sparse, with 2:4 sparsity", ["0.9", "2:4"]),
        # Not, or not certainly, about this model.
        ("90% accuracy on a sparse benchmark", []),
        ("Supports up to 90% sparsity", []),
        ("better than the 70% sparse model", []),
        ("We also publish a 95% sparse model.", []),
        ("Our models are 50% sparse and 90% sparse.", []),
        ("| 90% sparse | 76.1 |", []),
        ("```\n90% sparse\n```", []),
        ("[90% sparse](https://example.com)", []),
        ("see https://example.com/90%-sparse", []),
        ("at 12:30 the sparsity meeting", []),
        ("Sparsity: 4:2", []),
        ("ratio 1:2:4 sparse", []),
        ("190% sparse", []),
        ("sparsity is 0 %", []),
        ("Not a 90% sparse model", []),
    ],
)
def test_prose(text: str, claims: list[str]) -> None:
    assert claims_in(text) == claims


def test_the_location_is_reported() -> None:
    (mention,) = in_prose("# Model\n\nA **90%** sparse net.\n", Path("x/README.md"))
    assert mention.source == 'line 3 of x/README.md ("90%** sparse")'


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("bert-sparse-90.onnx", ["0.9"]),
        ("pruned75.pt", ["0.75"]),
        ("Llama-2-7b-pruned50-retrained", ["0.5"]),
        ("oBERT-12-upstream-pruned-unstructured-90-finetuned-mnli", ["0.9"]),
        ("resnet50_sparse0.95.onnx", ["0.95"]),
        ("mobilebert-pruned80_quant", ["0.8"]),
        ("net-pruned99.5.onnx", ["0.995"]),
        ("llama-pruned2.4", ["2:4"]),
        ("Sparse-Llama-3.1-8B-2of4", ["2:4"]),
        ("SparseLlama-3-8B-pruned_50.2of4", ["2:4", "0.5"]),
        ("pruned-13b.pt", []),
        ("sparse-7b", []),
        ("sparse-2024-01.onnx", []),
        ("sparse-02.onnx", []),
        ("sparse12.onnx", []),
        ("pruned.90x.onnx", []),
        ("parse-90.onnx", []),
        ("sparsenet-50.onnx", []),
        ("model-90.onnx", []),
    ],
)
def test_names(name: str, claims: list[str]) -> None:
    mentions = in_name(Path(name))
    assert [x.pattern or f"{float(x.share or 0):g}" for x in mentions] == claims


def test_generic_file_names_take_the_name_of_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "models--org--bert-pruned90" / "snapshots" / "0123"
    folder.mkdir(parents=True)
    for model in (folder, tmp_path / "bert-pruned90" / "model.onnx"):
        assert [float(x.share or 0) for x in in_name(model)] == [0.9]
    assert not list(in_name(tmp_path / "bert-pruned90" / "dense.onnx"))


def test_long_lines_are_fast() -> None:
    assert claims_in("9%" + " *_" * 3000 + "\n" + "sparsity " * 1000 + "\n" + "[" * 9000 + "\n" + "1:" * 4000) == []
