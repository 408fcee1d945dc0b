"""Hugging Face folders as transformers writes them, with one file or with shards, and errors for incomplete ones. Only
the folder itself and the blobs of the Hugging Face cache are read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch.checkpoint.folder import read_folder
from tests.formats.torch.hf_models import Made, thinned

OPTIONS = LoadOptions()
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def made() -> Made:
    return thinned("llama")


def sharded(made: Made, folder: Path) -> Path:
    made.model.save_pretrained(folder, max_shard_size="8KB")
    return folder


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("model-*.safetensors"))


def edit(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def assert_same(folder: Path, made: Made) -> None:
    found = read_folder(folder, OPTIONS)
    stored = made.model.state_dict()
    assert found.tensors.keys() == stored.keys()
    for name, tensor in found.tensors.items():
        assert torch.equal(tensor, stored[name])
    assert found.config is not None
    assert found.config["model_type"] == "llama"


def test_one_file(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    assert_same(tmp_path, made)


def test_shards(made: Made, tmp_path: Path) -> None:
    sharded(made, tmp_path)
    assert len(shards(tmp_path)) > 2
    assert_same(tmp_path, made)


def test_pickled_weights(made: Made, tmp_path: Path) -> None:
    made.model.config.save_pretrained(tmp_path)
    torch.save(made.model.state_dict(), tmp_path / "pytorch_model.bin")
    assert_same(tmp_path, made)


def test_pickled_shards(made: Made, tmp_path: Path) -> None:
    sharded(made, tmp_path)
    table = json.loads((tmp_path / INDEX).read_text())["weight_map"]
    for file in shards(tmp_path):
        torch.save(load_file(file), file.with_suffix(".bin"))
        file.unlink()
    index = {"weight_map": {name: file.replace(".safetensors", ".bin") for name, file in table.items()}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (tmp_path / INDEX).unlink()
    assert_same(tmp_path, made)


def test_safetensors_file_with_another_name(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    assert_same(tmp_path, made)


def test_links_of_the_cache(made: Made, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    sharded(made, tmp_path / "plain")
    snapshot.mkdir(parents=True)
    for i, file in enumerate((tmp_path / "plain").iterdir()):
        file.rename(blobs / f"{i:040}")
        (snapshot / file.name).symlink_to(Path("..") / ".." / "blobs" / f"{i:040}")
    assert_same(snapshot, made)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_link_out_of_the_folder(made: Made, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    made.model.save_pretrained(folder)
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match=f"{name} is outside the folder"):
        read_folder(folder, OPTIONS)


@pytest.mark.parametrize("absolute", [False, True])
def test_index_with_a_file_outside_the_folder(made: Made, tmp_path: Path, absolute: bool) -> None:
    folder = sharded(made, tmp_path / "model")
    first = shards(folder)[0]
    first.rename(tmp_path / first.name)
    outside = str(tmp_path / first.name) if absolute else f"../{first.name}"

    def lead_out(index: dict[str, Any]) -> None:
        table = index["weight_map"]
        table |= {name: outside for name, file in table.items() if file == first.name}

    edit(folder / INDEX, lead_out)
    with pytest.raises(RefusedError, match="is outside the folder"):
        read_folder(folder, OPTIONS)


def lose_a_shard(folder: Path) -> None:
    shards(folder)[1].unlink()


def list_a_name_that_no_file_can_have(folder: Path) -> None:
    edit(folder / INDEX, lambda index: index["weight_map"].update(dict.fromkeys(index["weight_map"], "x" * 300)))


def cut_a_shard(folder: Path) -> None:
    shards(folder)[0].write_bytes(shards(folder)[0].read_bytes()[:-8])


def empty_a_shard(folder: Path) -> None:
    shards(folder)[0].write_bytes(b"")


def point_with_lfs(folder: Path) -> None:
    shards(folder)[0].write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def double_a_tensor(folder: Path) -> None:
    first, second = shards(folder)[:2]
    save_file(load_file(first) | {next(iter(load_file(second))): torch.zeros(2)}, first)


def list_an_absent_tensor(folder: Path) -> None:
    edit(folder / INDEX, lambda index: index["weight_map"].update({"nosuch.weight": shards(folder)[0].name}))


def break_the_index(folder: Path) -> None:
    (folder / INDEX).write_text("{")


def empty_the_index(folder: Path) -> None:
    (folder / INDEX).write_text('{"weight_map": {}}')


def number_the_index(folder: Path) -> None:
    edit(folder / INDEX, lambda index: index.update(weight_map=dict.fromkeys(index["weight_map"], 3)))


def break_the_config(folder: Path) -> None:
    (folder / "config.json").write_text("[1]")


def lose_the_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def lose_all_weights(folder: Path) -> None:
    for file in (folder / INDEX, *shards(folder)):
        file.unlink()


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "name too long": (list_a_name_that_no_file_can_have, "1 of the 1 files in .* are missing"),
    "missing shard": (lose_a_shard, "1 of the .* files in model.safetensors.index.json are missing"),
    "cut shard": (cut_a_shard, "is truncated"),
    "empty shard": (empty_a_shard, "not a complete safetensors file"),
    "pointer": (point_with_lfs, "git lfs pull"),
    "tensor in two shards": (double_a_tensor, "is in two files"),
    "absent tensor": (list_an_absent_tensor, "lists 1 tensors that no shard contains: nosuch.weight"),
    "no JSON": (break_the_index, "cannot be read as JSON"),
    "empty index": (empty_the_index, "no weight_map"),
    "numbers for files": (number_the_index, "no weight_map"),
    "config of another kind": (break_the_config, "config.json contains a list"),
    "no index": (lose_the_index, "safetensors files and no index"),
    "no weights": (lose_all_weights, "no weights.*save_pretrained"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_incomplete_folders(made: Made, tmp_path: Path, case: str) -> None:
    breaking, message = BROKEN[case]
    breaking(sharded(made, tmp_path))
    with pytest.raises(LoadError, match=message):
        load(tmp_path, OPTIONS)


def test_harmful_weights_are_not_executed(made: Made, tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(tmp_path / "canary"), "w")

    made.model.config.save_pretrained(tmp_path)
    torch.save({**made.model.state_dict(), "x": Malicious()}, tmp_path / "pytorch_model.bin")
    with contextlib.suppress(LoadError):
        load(tmp_path, OPTIONS)
    assert not (tmp_path / "canary").exists()


def test_folder_without_config(made: Made, tmp_path: Path) -> None:
    made.model.save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(LoadError, match=r"no graph.*--arch"):
        load(tmp_path, OPTIONS)
