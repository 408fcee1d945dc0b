"""Mask files: formats, names and errors."""

from __future__ import annotations

import json
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file as load_torch_file
from safetensors.torch import save_file as save_torch_file
from torch import nn
from torch.nn.utils import parametrize, prune

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.cli import run
from effsparse_cli.errors import EffsparseError
from effsparse_cli.formats import LoadOptions, load
from tests.checks.models import dense, write_mlp
from tests.formats.masks.files import MASKS, RANDOM, WRITERS, Array, as_npz, as_safetensors, as_torch, kept, notes
from tests.test_rooms import loaded_by

Report = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Run the command and return its exit code, its output, and its messages on one line."""

    def outcome(*arguments: object) -> tuple[int, str, str]:
        code = run(["report", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return outcome


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A dense model: fc1 8 -> 6, fc2 6 -> 4."""
    return write_mlp(tmp_path / "model.onnx", dense(8, 6, 4))


@pytest.mark.parametrize("writer", WRITERS)
def test_file_formats(writer: str, model: Path, tmp_path: Path) -> None:
    file = WRITERS[writer](MASKS, tmp_path / "masks.npz" if writer == "npz" else tmp_path / "masks")
    found = kept(model, masks=file)
    assert all((found[name] == mask).all() for name, mask in MASKS.items())
    graph = load(model, LoadOptions(masks=file))
    assert analyze_graph(graph).totals.kept == sum(int(mask.sum()) for mask in MASKS.values())
    assert all(layer.masked for layer in graph.layers.values())


@pytest.mark.parametrize(
    "name",
    [
        "{}", "{}.weight", "{}_mask", "{}.mask", "{}.weight_mask", "{}.weight.mask", "module.{}.weight_mask",
        "mask_{}___weight", "{}.__weight_mma_mask", "{}.parametrizations.weight.0.mask",
    ],
)  # fmt: skip
def test_mask_names(name: str, model: Path, tmp_path: Path) -> None:
    masks = {name.format(layer): mask for layer, mask in MASKS.items()}
    found = kept(model, masks=as_safetensors(masks, tmp_path / "m.safetensors"))
    assert all((found[layer] == mask).all() for layer, mask in MASKS.items())


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, np.float32])
def test_dtypes(dtype: type, model: Path, tmp_path: Path) -> None:
    masks: dict[str, Array] = {layer: mask.astype(dtype) for layer, mask in MASKS.items()}
    found = kept(model, masks=as_safetensors(masks, tmp_path / "m.safetensors"))
    assert all((found[layer] == mask).all() for layer, mask in MASKS.items())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_dtypes_that_numpy_lacks(dtype: torch.dtype, model: Path, tmp_path: Path) -> None:
    masks = {layer: torch.from_numpy(mask).to(dtype) for layer, mask in MASKS.items()}
    save_torch_file(masks, tmp_path / "m.safetensors")
    found = kept(model, masks=tmp_path / "m.safetensors")
    assert all((found[layer] == mask).all() for layer, mask in MASKS.items())


def test_pruned_state_dict_as_mask_file(model: Path, tmp_path: Path) -> None:
    state: dict[str, Array] = {f"{layer}.weight_mask": mask.astype(np.float32) for layer, mask in MASKS.items()}
    state |= {f"{layer}.weight_orig": RANDOM.normal(size=mask.shape) for layer, mask in MASKS.items()}
    found = kept(model, masks=as_torch(state, tmp_path / "state.pt"))
    assert all((found[layer] == mask).all() for layer, mask in MASKS.items())


def test_layers_without_mask_are_unchanged(model: Path, tmp_path: Path) -> None:
    file = as_npz({"fc1": MASKS["fc1"]}, tmp_path / "m.npz")
    found = kept(model, masks=file)
    assert found["fc2"].all()
    assert (found["fc1"] == MASKS["fc1"]).all()
    assert "m.npz has masks for 1 of 2 layers; the other layers are unchanged" in notes(model, masks=file)


def test_masks_of_biases_are_ignored(model: Path, tmp_path: Path) -> None:
    file = as_npz({**MASKS, "fc1.bias": np.ones(6, bool)}, tmp_path / "m.npz")
    assert "1 mask of a bias or norm in m.npz ignored" in notes(model, masks=file)


def test_active_masks_can_be_read_back(report: Report, model: Path, tmp_path: Path) -> None:
    given, active = as_npz(MASKS, tmp_path / "m.npz"), tmp_path / "active.npz"
    first = json.loads(report(model, "--masks", given, "-f", "json", "--active-masks", active)[1])
    again = json.loads(report(model, "--masks", active, "-f", "json")[1])
    assert again["totals"]["kept"] == first["totals"]["active"] == again["totals"]["active"]


@pytest.mark.parametrize(
    ("masks", "code", "message"),
    [
        (
            {"fc1": MASKS["fc1"], "fc3": MASKS["fc2"]},
            2,
            '{}: mask "fc3" matches no layer. The closest layers are fc',
        ),
        ({"fc1": MASKS["fc1"][:, :5]}, 2, 'mask "fc1" has shape 6x5, but the weight of fc1 has shape 6x8'),
        ({"fc1": MASKS["fc1"].T.copy()}, 2, "Is it transposed?"),
        ({"fc1": MASKS["fc1"], "fc1.weight": MASKS["fc1"]}, 2, "has two masks for fc1: fc1 and fc1.weight"),
        ({"fc1": RANDOM.random((6, 8))}, 3, 'mask "fc1" is not binary'),
        ({"fc1": np.full((6, 8), np.nan)}, 3, "contains NaN"),
        ({"bias": np.ones(6, bool)}, 2, "{} has no mask that matches a layer"),
        ({}, 3, "{} contains no masks"),
    ],
)
def test_masks_that_do_not_match(
    masks: dict[str, Array],
    code: int,
    message: str,
    report: Report,
    model: Path,
    tmp_path: Path,
) -> None:
    file = as_safetensors(masks, tmp_path / "m.safetensors")
    exit_code, _, message_text = report(model, "--masks", file, "-o", tmp_path / "out.txt")
    assert exit_code == code
    assert message.format(file) in message_text
    assert not (tmp_path / "out.txt").exists()


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("canary"),))


def damaged(tmp_path: Path) -> dict[str, Path]:
    files = {name: tmp_path / f"{name}.bin" for name in ("text", "empty", "cut npz", "cut torch", "zip", "cut header")}
    files["text"].write_text("no masks here")
    files["empty"].write_bytes(b"")
    files["cut npz"].write_bytes(as_npz(MASKS, tmp_path / "m.npz").read_bytes()[:-40])
    files["cut torch"].write_bytes(as_torch(MASKS, tmp_path / "m.pt").read_bytes()[:-40])
    files["cut header"].write_bytes(as_safetensors(MASKS, tmp_path / "m.safetensors").read_bytes()[:30])
    with zipfile.ZipFile(files["zip"], "w") as archive:
        archive.writestr("readme.txt", "nothing")
    np.savez(tmp_path / "pickle.npz", fc1=np.array([Evil()], dtype=object))
    torch.save({"fc1": Evil()}, tmp_path / "evil.pt")
    return {**files, "pickle": tmp_path / "pickle.npz", "evil": tmp_path / "evil.pt", "absent": tmp_path / "absent"}


def test_damaged_and_hostile_files(
    report: Report, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, file in damaged(tmp_path).items():
        code, _, message = report(model, "--masks", file)
        assert code == 3, name
        assert "--masks: " in message, name
        assert str(file) in message, name
        assert "Traceback" not in message
    assert not (tmp_path / "canary").exists()


def test_torch_is_imported_only_for_torch_files(model: Path, tmp_path: Path) -> None:
    run = "import sys; from effsparse_cli.cli import run; assert run(sys.argv[1:]) == 0"
    for file in (as_npz(MASKS, tmp_path / "m.npz"), as_safetensors(MASKS, tmp_path / "m.safetensors")):
        assert "torch" not in loaded_by(run, "report", str(model), "--masks", str(file))


def test_mask_file_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(EffsparseError):
        load(as_npz(MASKS, tmp_path / "m.npz"), LoadOptions(masks=tmp_path / "m.npz"))


def npy(descr: str, shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """Return a .npy file with any header."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


@pytest.mark.parametrize(
    ("descr", "shape", "expected"),
    [
        ("|V60000", (6, 8), "has dtype"),
        ("|O", (6, 8), "pickle"),
        ("<U60000", (6, 8), "has dtype"),
        ("|b1", (6, 8), "smaller than the shape"),
        ("<f8", (1 << 40, 1 << 20), "smaller than the shape"),
        ("|b1", (-6, -8), "smaller than the shape"),
    ],
)
def test_forged_arrays_allocate_no_memory(
    report: Report, model: Path, tmp_path: Path, descr: str, shape: tuple[int, ...], expected: str
) -> None:
    file = tmp_path / "m.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fc1.npy", npy(descr, shape, bytes(16)))
    tracemalloc.start()
    code, _, message = report(model, "--masks", file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 3
    assert expected in message
    assert peak < 50e6


def masked_module(kind: str) -> nn.Module:
    model = nn.Sequential()
    model.add_module("fc1", nn.Linear(8, 6))
    model.add_module("fc2", nn.Linear(6, 4))
    for layer in model:
        assert isinstance(layer, nn.Linear)
        if kind == "torch.nn.utils.prune":
            prune.random_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]
        elif kind == "parametrization":
            parametrize.register_parametrization(layer, "weight", Masked(layer.weight))
    return model


class Masked(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones_like(weight))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        mask: torch.Tensor = self.mask  # type: ignore[assignment]
        return weight * mask


@pytest.mark.parametrize("kind", ["plain", "torch.nn.utils.prune", "parametrization"])
def test_active_masks_have_keys_of_the_state_dict(report: Report, tmp_path: Path, kind: str) -> None:
    """Masks have the keys of the model without hooks and parametrizations, and can be read back."""
    torch.save(masked_module(kind).state_dict(), tmp_path / "m.pt")
    (tmp_path / "plainnet.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    model = nn.Sequential()\n"
        "    model.add_module('fc1', nn.Linear(8, 6))\n"
        "    model.add_module('fc2', nn.Linear(6, 4))\n"
        "    return model\n"
    )
    active = tmp_path / "active.safetensors"
    before = sys.path.copy()
    sys.path.insert(0, str(tmp_path))
    try:
        arguments = [tmp_path / "m.pt", "--arch", "plainnet:make", "--input-shape", "1,8"]
        assert report(*arguments, "--active-masks", active)[0] == 0
        state = masked_module("plain").state_dict()
        masks = load_torch_file(active)
        assert list(masks) == ["fc1.weight", "fc2.weight"]
        for key, mask in masks.items():
            assert state[key].shape == mask.shape
        assert report(*arguments, "--masks", active)[0] == 0
    finally:
        sys.path[:] = before


def test_active_masks_of_onnx_have_initializer_names(report: Report, model: Path, tmp_path: Path) -> None:
    active = tmp_path / "active.npz"
    assert report(model, "--active-masks", active)[0] == 0
    assert set(np.load(active)) == {tensor.name for tensor in onnx.load(model).graph.initializer}
