"""Masks written into files of tensors and read back: state_dicts however they are wrapped, safetensors files, Hugging
Face folders. Bytes unrelated to the masks do not change."""

from __future__ import annotations

import json
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.cli import run
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats import LoadOptions, load, open_model_file
from effsparse_cli.formats.output import Changes, ModelOutput
from effsparse_cli.graph.primitives import Bools
from tests.formats.torch.hf_models import thinned
from tests.formats.write import write_kept

LENET = LoadOptions(arch="lenet-300-100")


def lenet() -> nn.Module:
    from effsparse_cli.formats.torch.arch.built_in import BUILT_IN

    torch.manual_seed(0)
    return BUILT_IN["lenet-300-100"].make()


def written(source: Path, target: Path, options: LoadOptions, form: str = "zeros") -> dict[str, Bools]:
    """Half of every layer goes. The masks, after they were found in the new file."""
    draw = np.random.default_rng(0)
    before = load(source, options)
    masks = {layer.name: draw.random(layer.shape) < 0.5 for layer in before.layers.values()}
    file, output = open_model_file(source, options), ModelOutput(path=target, form=form)
    file.check_output(output)
    file.write(output, Changes(kept=masks))
    after = load(target, options)
    assert after.layers.keys() == masks.keys()
    for name, layer in after.layers.items():
        old = before.layers[name]
        assert layer.values is not None
        assert old.values is not None
        there = masks[name] if layer.masked else masks[name] & (old.values() != 0)
        np.testing.assert_array_equal(layer.kept(), there, err_msg=name)
        numbers = old.values() if form == "prune" else np.where(masks[name], old.values(), 0)
        np.testing.assert_array_equal(layer.values(), numbers, err_msg=name)
    return masks


def plain(model: nn.Module) -> Any:
    return model.state_dict()


def wrapped(model: nn.Module) -> Any:
    optimizer = torch.optim.Adam(model.parameters())
    sum(p.sum() for p in model.parameters()).backward()  # type: ignore[union-attr]
    optimizer.step()
    state = {f"module.{name}": tensor for name, tensor in model.state_dict().items()}
    return {"epoch": 3, "state_dict": state, "optimizer": optimizer.state_dict(), "best": torch.tensor(0.5)}


def masked(model: nn.Module) -> Any:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            prune.random_unstructured(module, "weight", 0.3)  # type: ignore[no-untyped-call]
    return model.state_dict()


def turned(model: nn.Module) -> Any:
    """Weights that do not lie in their own order."""
    return OrderedDict((name, t.T.contiguous().T if t.ndim == 2 else t) for name, t in model.state_dict().items())


STATES: dict[str, Callable[[nn.Module], Any]] = {
    "plain": plain,
    "wrapped": wrapped,
    "masked": masked,
    "turned": turned,
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("form", ["zeros", "prune"])
@pytest.mark.parametrize("name", STATES)
def test_state_dict(tmp_path: Path, name: str, form: str) -> None:
    torch.save(STATES[name](lenet()), tmp_path / "in.pt")
    written(tmp_path / "in.pt", tmp_path / "out.pt", LENET, form)
    before, after = (torch.load(tmp_path / file) for file in ("in.pt", "out.pt"))
    if name == "wrapped":
        assert same(
            [before[key] for key in ("epoch", "optimizer", "best")], [after[k] for k in ("epoch", "optimizer", "best")]
        )
        before, after = before["state_dict"], after["state_dict"]
    if form == "zeros":
        assert list(before) == list(after)
        assert [t.stride() for t in before.values()] == [t.stride() for t in after.values()]
        with zipfile.ZipFile(tmp_path / "out.pt") as archive:
            assert archive.testzip() is None
    elif name != "masked":
        assert [n for n in after if n.endswith("_orig")] == [f"{n}_orig" for n, t in before.items() if t.ndim == 2]
    assert all(torch.equal(after[n], t) for n, t in before.items() if n.endswith("bias"))


def test_prune_form_loads_into_a_model_with_its_hooks(tmp_path: Path) -> None:
    torch.save(lenet().state_dict(), tmp_path / "in.pt")
    masks = written(tmp_path / "in.pt", tmp_path / "out.pt", LENET, "prune")
    model = lenet()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            prune.identity(module, "weight")  # type: ignore[no-untyped-call]
    model.load_state_dict(torch.load(tmp_path / "out.pt"))
    name, mask = next(iter(masks.items()))
    assert np.array_equal(model.state_dict()[f"{name}.weight_mask"].numpy() != 0, mask)


def test_legacy_format(tmp_path: Path) -> None:
    torch.save(lenet().state_dict(), tmp_path / "in.pt", _use_new_zipfile_serialization=False)
    written(tmp_path / "in.pt", tmp_path / "out.pt", LENET)
    assert torch.load(tmp_path / "out.pt").keys() == torch.load(tmp_path / "in.pt").keys()


def test_objects_beside_the_weights_stay(tmp_path: Path) -> None:
    """Nothing of them is run, so they need not be known."""
    torch.save({"state_dict": lenet().state_dict(), "where": Path("runs")}, tmp_path / "in.pt")
    written(tmp_path / "in.pt", tmp_path / "out.pt", LENET)
    assert torch.load(tmp_path / "out.pt", weights_only=False)["where"] == Path("runs")
    with pytest.raises(UsageError, match=r"objects of custom classes.*without --form prune"):
        written(tmp_path / "in.pt", tmp_path / "masked.pt", LENET, "prune")
    assert not (tmp_path / "masked.pt").exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_safetensors(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in lenet().state_dict().items()}
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    save_file(tensors, source, metadata={"by": "hand"})
    written(source, target, LENET)
    old, new = source.read_bytes(), target.read_bytes()
    header = 8 + int.from_bytes(old[:8], "little")
    assert new[:header] == old[:header]
    with safe_open(target, "pt") as file:
        assert file.metadata() == {"by": "hand"}


@pytest.mark.parametrize("name", ["llama, tied", *(pytest.param(n, marks=pytest.mark.slow) for n in ("llama", "gpt2"))])
def test_folder(tmp_path: Path, name: str) -> None:
    made = thinned(name, density=0.8)
    made.model.save_pretrained(tmp_path / "in", max_shard_size="8KB")
    (tmp_path / "in" / "tokenizer.json").write_text("{}")
    masks = written(tmp_path / "in", tmp_path / "out", LoadOptions())
    assert {file.name for file in (tmp_path / "out").iterdir()} == {file.name for file in (tmp_path / "in").iterdir()}
    again = type(made.model).from_pretrained(tmp_path / "out")
    weight, mask = next(iter(masks.items()))
    old, new = (model.state_dict()[f"{weight}.weight"] for model in (made.model, again))
    assert torch.equal(new, old * torch.from_numpy(mask))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_folder_of_pickles_and_links(tmp_path: Path) -> None:
    made = thinned("llama", density=0.8)
    snapshot, blobs = tmp_path / "snapshots" / "0", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    made.model.config.architectures = [type(made.model).__name__]
    made.model.config.save_pretrained(snapshot)
    torch.save(made.model.state_dict(), blobs / "1")
    before = (blobs / "1").read_bytes()
    (snapshot / "pytorch_model.bin").symlink_to("../../blobs/1")
    written(snapshot, tmp_path / "out", LoadOptions())
    assert not (tmp_path / "out" / "pytorch_model.bin").is_symlink()
    assert (blobs / "1").read_bytes() == before


def coo(state: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in state.items() if tensor.ndim == 2)
    state[name] = state[name].to_sparse()


def one_mask_per_row(state: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in state.items() if tensor.ndim == 2)
    state[f"{name.removesuffix('.weight')}.row_pruning_mask"] = torch.ones(len(state[name]), 1)


def repeated(state: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in state.items() if tensor.ndim == 2)
    state[name] = state[name][:1].expand(state[name].shape)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (coo, "sparse, quantized or packed"),
        (one_mask_per_row, "whole outputs"),
        (repeated, "cannot be overwritten"),
    ],
)
def test_what_cannot_be_written_is_said(
    tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], None], message: str
) -> None:
    state = lenet().state_dict()
    change(state)
    torch.save(state, tmp_path / "in.pt")
    with pytest.raises(UsageError, match=f"{message}.*--masks-only"):
        written(tmp_path / "in.pt", tmp_path / "out.pt", LENET)
    assert not (tmp_path / "out.pt").exists()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    thinned("llama").model.save_pretrained(tmp_path / "in")
    (tmp_path / "secret").write_text("x")
    (tmp_path / "in" / "notes.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(LoadError, match=r"notes.txt is outside the folder"):
        write_kept(tmp_path / "in", tmp_path / "out", {})
    assert not (tmp_path / "out").exists()


def test_where_a_folder_cannot_go(tmp_path: Path) -> None:
    thinned("llama").model.save_pretrained(tmp_path / "in")
    (tmp_path / "there").mkdir()
    for place, message in (
        ("there", "already exists"),
        ("in/out", "inside the input folder"),
        ("no/out", "does not exist"),
    ):
        with pytest.raises(UsageError, match=message):
            open_model_file(tmp_path / "in").check_output(ModelOutput(path=tmp_path / place))
    with pytest.raises(UsageError, match="cannot be changed in place"):
        open_model_file(tmp_path / "in").check_output(ModelOutput(path=tmp_path / "in", in_place=True))


@pytest.mark.parametrize("form", ["state_dict", "safetensors", "folder"])
def test_prune_and_report_by_command(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    arch = ["--arch", "lenet-300-100"]
    if form == "folder":
        source, target, arch = tmp_path / "in", tmp_path / "out", []
        thinned("llama", density=1.0).model.save_pretrained(source)
    elif form == "safetensors":
        source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
        save_file(lenet().state_dict(), source)
    else:
        source, target = tmp_path / "in.pt", tmp_path / "out.pt"
        torch.save(lenet().state_dict(), source)
    assert run(["prune", str(source), *arch, "--target", "0.6", "-o", str(target)]) == 0
    capsys.readouterr()
    assert run(["report", str(target), *arch, "--format", "json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert totals["kept"] == totals["active"]
    assert totals["effective_sparsity"] == pytest.approx(0.6, abs=0.02)
    assert run(["prune", str(target), *arch, "--target", "0.7", "-o", str(tmp_path / "x.onnx")]) == 2


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
def test_a_repair_with_nothing_to_repair_is_a_copy(tmp_path: Path, form: str) -> None:
    """It ended in a KeyError."""
    state, source, target = lenet().state_dict(), tmp_path / "m", tmp_path / "new"
    if form == "safetensors":
        save_file(state, source)
    else:
        torch.save(state, source, _use_new_zipfile_serialization=form == "zip")
    assert run(["repair", str(source), "--arch", "lenet-300-100", "-o", str(target)]) == 0
    assert target.read_bytes() == source.read_bytes()


def test_weights_beside_a_config_propose_the_folder(tmp_path: Path) -> None:
    save_file(nn.Linear(2, 2).state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(LoadError, match=f"config.json beside it: pass the folder {tmp_path}"):
        load(tmp_path / "model.safetensors", LoadOptions())
