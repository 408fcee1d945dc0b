"""Settings in a config.json: numbers that JSON lacks are read, nothing is imported or run, and small folders that
describe huge models are refused."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.cli import run
from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch.arch.huggingface import build as hf
from effsparse_cli.formats.torch.arch.huggingface import config
from effsparse_cli.formats.torch.arch.huggingface.config import Limits, clean_config, within
from tests.formats.torch.hf_families import FAMILIES

OPTIONS = LoadOptions()
SMALL = Limits(tensors=30, elements=10_000)


def saved(name: str, folder: Path) -> Path:
    FAMILIES[name].build().save_pretrained(folder)
    return folder


def edit(folder: Path, **settings: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))


def test_infinities(tmp_path: Path) -> None:
    saved("mamba2", tmp_path)
    assert '"__float__"' in (tmp_path / "config.json").read_text()
    tagged = analyze_graph(load(tmp_path, OPTIONS)).totals
    edit(tmp_path, time_step_limit=[0.0, math.inf])
    assert "Infinity]" in (tmp_path / "config.json").read_text()
    assert analyze_graph(load(tmp_path, OPTIONS)).totals == tagged


def test_unsafe_settings_are_removed_at_every_level() -> None:
    odd = {
        "attn_implementation": "someone/kernel", "_attn_implementation_internal": "someone/kernel",
        "auto_map": {"AutoModel": "evil.Evil"}, "trust_remote_code": True,
    }  # fmt: skip
    config = clean_config({**odd, "text_config": {**odd, "x": [{**odd, "hidden_size": 4}]}})
    assert config == {"text_config": {"x": [{"hidden_size": 4}]}, "use_cache": False}


def test_only_model_classes_are_accessed(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    accessed: list[str] = []
    monkeypatch.setattr(type(transformers), "__getattr__", lambda _, name: accessed.append(name))
    for name in ("Trainer", "pipeline", "BertTokenizer", "AutoModel", "os", "__class__"):
        with pytest.raises(LoadError, match="does not have the model type"):
            hf.build_hf({"model_type": "bert", "architectures": [name]}, OPTIONS)
    assert not {"Trainer", "pipeline", "BertTokenizer"} & set(accessed)


HUGE: dict[str, tuple[str, dict[str, Any]]] = {
    "layers": ("llama", {"num_hidden_layers": 10_000_000, "layer_types": None}),
    "layers of a list": ("resnet", {"depths": [3, 4, 10_000_000, 3]}),
    "many parameters": ("bert", {"vocab_size": 10**12}),
    "positions": ("bert", {"max_position_embeddings": 600_000_000}),
    "more positions than fit": ("gpt2", {"n_positions": 200_000}),
    "computed positions": ("marian", {"max_position_embeddings": 600_000_000}),
    "image": ("vit", {"image_size": 1_000_000}),
    "image without a table": ("resnet", {"image_size": 1_000_000}),
    "labels": ("bert", {"num_labels": 10**9, "id2label": None}),
    "inside": ("clip", {"text_config": {"num_hidden_layers": 10**7, "vocab_size": 40}}),
    "experts": ("mixtral", {"num_local_experts": 10**8}),
    "width": ("llama", {"hidden_size": 10**7, "intermediate_size": 10**7}),
    "sound": ("wav2vec2", {"conv_stride": [10**6, 10**6]}),
    "a number without end": ("llama", {"hidden_size": 10**400}),
}


@pytest.mark.parametrize("case", HUGE)
def test_small_folder_of_a_huge_model(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, settings = HUGE[case]
    edit(saved(name, tmp_path), **settings)
    capsys.readouterr()
    assert run(["report", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("error: ")


WRONG: dict[str, Any] = {
    "text": "many", "list": [1, [2]], "nothing": None, "negative": -3, "zero": 0, "fraction": 0.5, "table": {"a": 1},
    "NaN": math.nan, "flag": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ("text", "list", "negative") else pytest.param(kind, marks=pytest.mark.slow) for kind in WRONG],
)
def test_wrong_types(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("llama", tmp_path)
    original = (tmp_path / "config.json").read_text()
    for key in (
        "num_hidden_layers",
        "hidden_size",
        "vocab_size",
        "hidden_act",
        "model_type",
        "architectures",
        "rope_parameters",
    ):
        (tmp_path / "config.json").write_text(original)
        edit(tmp_path, **{key: WRONG[kind]})
        assert run(["report", str(tmp_path)]) in (0, 3), (key, capsys.readouterr().err)


def test_deep_and_long_configs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("llama", tmp_path)
    for text in (
        "[" * 100_000,
        '{"a":' * 500 + "1" + "}" * 500,
        '{"model_type": "llama", "x": "' + "a" * (1 << 25) + '"}',
    ):
        (tmp_path / "config.json").write_text(text)
        assert run(["report", str(tmp_path)]) == 3


def test_broken_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of transformers itself hides which imported package is broken."""
    (tmp_path / "halfpackage.py").write_text("raise RuntimeError('compiled for another version')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def fail(*_: object) -> None:
        try:
            importlib.import_module("halfpackage")
        except RuntimeError as error:
            raise ModuleNotFoundError("Could not import module 'LlamaForCausalLM'") from error

    monkeypatch.setattr(hf, "_find_class", fail)
    with pytest.raises(LoadError, match="importing the installed package halfpackage fails: compiled for another"):
        hf.build_hf({"model_type": "llama"}, OPTIONS)


def test_limits_count_the_memory_of_parameters_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters are made, then moved to the meta device, which takes no memory."""
    monkeypatch.setattr(config, "SPARE_BYTES", 0)
    limits = Limits(tensors=1, elements=10_000)
    with hf._without_values(), within(limits):
        layers = [torch.nn.Linear(100, 100, bias=False) for _ in range(2)]
    assert all(layer.weight.is_meta for layer in layers)
    with pytest.raises(RefusedError, match="far more memory"), within(limits):
        torch.nn.Linear(100, 201, bias=False)


def test_limits_count_packed_elements() -> None:
    packed = {"a": torch.zeros(10, dtype=torch.int32), "b": torch.zeros(10)}
    assert Limits.of(packed) == Limits(tensors=2, elements=330)
