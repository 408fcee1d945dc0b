"""`effsparse prune` on real files: the file that it writes says what the command says, and inputs are safe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from torch import nn

from tests.commands.conftest import Run


def document(effsparse: Run, *arguments: object) -> dict[str, Any]:
    outcome = effsparse(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = json.loads(outcome.out)
    return found


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """A small network as a module and, with its weights stored the other way round, as ONNX."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 16, bias=False), nn.ReLU(), nn.Linear(16, 10, bias=False))
    torch.save(model, tmp_path / "dense.pt")
    weights = [model.state_dict()[name].numpy().T.copy() for name in ("0.weight", "2.weight")]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w2"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(weight, name) for weight, name in zip(weights, ("w0", "w2"), strict=True)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "dense.onnx")
    return tmp_path


@pytest.mark.parametrize("suffix", [".pt", ".onnx"])
@pytest.mark.parametrize("options", [[], ["--method", "random"], ["--method", "random", "--lsq", "erk"]])
def test_the_file_says_what_the_command_says(effsparse: Run, dense: Path, suffix: str, options: list[str]) -> None:
    source, target = dense / f"dense{suffix}", dense / f"out{suffix}"
    before = source.read_bytes()
    pruned = document(effsparse, "prune", source, "--target", "0.8", *options, "-o", target)
    report = document(effsparse, "report", target)
    assert pruned["after"]["active"] == report["totals"]["active"] == report["totals"]["kept"] >= 96
    assert pruned["reached"]
    assert [layer["after"]["active"] for layer in pruned["layers"]] == [layer["active"] for layer in report["layers"]]
    assert source.read_bytes() == before


@pytest.mark.parametrize("method", ["random", "magnitude", "lamp", "synflow"])
def test_formats_of_one_model_get_the_same_masks(effsparse: Run, dense: Path, method: str) -> None:
    seed = ["--seed", 5] if method == "random" else []
    for suffix in (".pt", ".onnx"):
        outcome = effsparse(
            "prune", dense / f"dense{suffix}", "--target", "0.9", "--method", method, *seed, "--masks-only",
            "-o", dense / f"masks{suffix}.safetensors",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
    torch_masks, onnx_masks = (load_file(dense / f"masks{suffix}.safetensors") for suffix in (".pt", ".onnx"))
    for ours, theirs in (("0.weight", "w0"), ("2.weight", "w2")):
        np.testing.assert_array_equal(torch_masks[ours], onnx_masks[theirs].T)


@pytest.mark.parametrize("name", ["resnet_small.pt2", "transformer_tiny.pt2", "lstm.pt2"])
def test_exported_programs(effsparse: Run, tmp_path: Path, name: str) -> None:
    pruned = document(effsparse, "prune", name, "--target", "0.995", "-o", tmp_path / name)
    report = document(effsparse, "report", tmp_path / name)
    assert report["totals"]["active"] == report["totals"]["kept"] == pruned["after"]["active"]


def test_prune_form(effsparse: Run, dense: Path) -> None:
    source, target = dense / "dense.pt", dense / "out.pt"
    assert effsparse("prune", source, "--target", "0.9", "--form", "prune", "-o", target).code == 0
    state = torch.load(target, weights_only=False).state_dict()
    assert set(state) == {"0.weight_orig", "0.weight_mask", "2.weight_orig", "2.weight_mask"}
    assert torch.equal(state["0.weight_orig"], torch.load(source, weights_only=False)[0].weight)


def test_in_place(effsparse: Run, dense: Path) -> None:
    for name in ("dense.pt", "dense.onnx"):
        refused = effsparse("prune", dense / name, "--target", "0.9", "-o", dense / name)
        assert (refused.code, refused.out) == (2, "")
        assert "never overwritten" in refused.message
        assert effsparse("prune", dense / name, "--target", "0.9", "--in-place").code == 0
        report = document(effsparse, "report", dense / name)
        assert report["totals"]["kept"] == report["totals"]["active"] < 60
    assert sorted(file.name for file in dense.iterdir()) == ["dense.onnx", "dense.pt"]


def test_direct_and_keep_inactive(effsparse: Run, dense: Path) -> None:
    options = ["prune", dense / "dense.pt", "--compression", "30", "--method", "random", "--lsq", "uniform"]
    direct = document(effsparse, *options, "--direct")
    assert direct["after"]["kept"] == 16
    assert direct["after"]["active"] < 16
    kept = document(effsparse, *options, "--keep-inactive")
    assert kept["after"]["kept"] > kept["after"]["active"]


def test_out_of_reach(effsparse: Run, dense: Path) -> None:
    options = ["prune", dense / "dense.pt", "--target", "0.998", "--method", "random", "--lsq", "uniform"]
    refused, outcome = effsparse(*options), effsparse(*options, "--closest")
    found = document(effsparse, *options, "--closest")
    assert not found["reached"]
    assert (refused.code, refused.out) == (1, "")
    for text in (refused.message, " ".join(outcome.out.split())):
        assert "out of reach" in text
        assert found["cut"] in text
    assert document(effsparse, *options, "--allow-disconnected")["after"]["disconnected"]


def test_data(effsparse: Run, dense: Path) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((8, 20)).astype(np.float32), draw.integers(0, 10, 8)
    np.savez(dense / "batch.npz", x=x, y=y)
    torch.save((torch.from_numpy(x), torch.from_numpy(y)), dense / "batch.pt")
    masks = []
    for data in ("batch.npz", "batch.pt"):
        outcome = effsparse(
            "prune", dense / "dense.pt", "--target", "0.9", "--method", "snip", "--data", dense / data, "--masks-only",
            "-o", dense / "masks.npz",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        masks.append(dict(np.load(dense / "masks.npz")))
    assert all((masks[0][name] == masks[1][name]).all() for name in ("0.weight", "2.weight"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["figure1.pt"], "--target 0.99 or --compression 100"),
        (["figure1.pt", "--target", "1.5"], "must be between 0 and 1"),
        (["figure1.pt", "--target", "0.5", "--lsq", "nosuch"], "--lsq nosuch: unknown"),
        (["figure1.pt", "--target", "0.5", "--pattern", "4"], "N:M"),
        (["figure1.pt", "--target", "0.5", "--method", "snip"], "magnitude, random, lamp, synflow need none"),
        (["lstm.pt2", "--target", "0.5", "--method", "snip", "--data", "x.npz"], "need no gradients"),
        (
            ["lstm.pt2", "--target", "0.5", "--form", "prune", "-o", "OUT/x.pt2"],
            "a module or state_dict saved with torch.save",
        ),
        (["lstm.pt2", "--target", "0.5", "-o", "OUT/x.onnx"], "must have the format of"),
        (["lstm.pt2", "--target", "0.5", "-o", "OUT/x.npz"], "add --masks-only"),
        (["lstm.pt2", "--target", "0.5", "--masks-only"], "add -o FILE"),
        (["lstm.pt2", "--target", "0.5", "--masks-only", "-o", "OUT/x.pt"], ".safetensors or .npz"),
        (["lstm.pt2", "--target", "0.5", "--in-place", "-o", "OUT/x.pt2"], "not both"),
        (["lstm.pt2", "--target", "0.5", "--method", "magnitude", "--algorithm", "aerp"], "random with a quota"),
    ],
)
def test_wrong_usage(effsparse: Run, tmp_path: Path, arguments: list[str], expected: str) -> None:
    outcome = effsparse("prune", *(argument.replace("OUT", str(tmp_path)) for argument in arguments))
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message
    assert list(tmp_path.iterdir()) == []


def test_table(effsparse: Run) -> None:
    outcome = effsparse("prune", "lenet5_igq.pt", "--target", "0.995", "--input-shape", "1,3,32,32")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["layer", "weights", "active", "before", "kept", "active", "direct", "effective"]
    assert lines[7].split()[:4] == ["total", "61,770", "470", "312"]
    assert "Nothing written" in " ".join(outcome.out.split())
