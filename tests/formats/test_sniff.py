"""File types are detected from content, not from names, and errors say what a file is instead of a model."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.sniff import sniff


def test_loading_room_imports_no_framework() -> None:
    script = "import sys, effsparse_cli.formats; print({'torch', 'onnx'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_kinds_under_wrong_suffixes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    torch.save(model, tmp_path / "pickled.onnx")
    torch.save(model, tmp_path / "legacy.pt2", _use_new_zipfile_serialization=False)
    torch.export.save(torch.export.export(model, (torch.zeros(1, 4),)), tmp_path / "exported.pt2")
    (tmp_path / "exported.pt2").rename(tmp_path / "exported.pt")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.pt")
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.trace(model, torch.zeros(1, 4)), tmp_path / "script.onnx")  # type: ignore[no-untyped-call]
    save_file(model.state_dict(), tmp_path / "tensors.pt")
    (tmp_path / "folder.pt").mkdir()
    (tmp_path / "folder.pt" / "config.json").write_text("{}")
    found = {path.name: sniff(path) for path in tmp_path.iterdir()}
    assert found == {
        "pickled.onnx": "pickled",
        "legacy.pt2": "pickled",
        "exported.pt": "exported",
        "model.pt": "onnx",
        "script.onnx": "script",
        "tensors.pt": "safetensors",
        "folder.pt": "folder",
    }


BAD = {
    "empty": (b"", "is empty"),
    "text": (b"hello\n", "it is a text file"),
    "page": (b"<!DOCTYPE html><html>not found</html>", "web page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "noise": (bytes(range(1, 200)), "its format is unknown"),
    "cut zip": (b"PK\x03\x04" + bytes(50), "truncated"),
}


@pytest.mark.parametrize("name", BAD)
def test_other_files_are_named(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    file = tmp_path / "model.pt"
    file.write_bytes(content)
    with pytest.raises(LoadError, match=message):
        sniff(file)


def test_other_zips_and_paths(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    for name, message in [("other.zip", "neither torch"), ("absent.pt", "does not exist")]:
        with pytest.raises(LoadError, match=message):
            sniff(tmp_path / name)
    with pytest.raises(LoadError, match=r"a folder without config\.json and weights"):
        sniff(tmp_path)
    for name in ("model.safetensors", "pytorch_model.bin", "pytorch_model.bin.index.json"):
        (tmp_path / name[:3]).mkdir(exist_ok=True)
        (tmp_path / name[:3] / name).touch()
        assert sniff(tmp_path / name[:3]) == "folder"
