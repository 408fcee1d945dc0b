"""Small folders of valid files, and the edits that apply to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.structure import makers
from benchmarks.structure.messages import edit_onnx
from benchmarks.structure.pickles import edit_legacy, edit_pickle
from benchmarks.structure.trees import edit_json, edit_safetensors, edit_toml
from benchmarks.structure.zips import edit_directory, edit_members, edit_npy, inside

COMMANDS = ("report", "prune", "repair", "compact", "check", "diff")
MASKED = ("report", "prune", "repair", "check", "diff")
Edit = Callable[[bytes, random.Random], bytes]
ARCHIVE = (inside("data.pkl", edit_pickle), inside("data.pkl", edit_pickle), edit_members, edit_directory)
EXPORTED = (inside(".json", edit_json), inside(".json", edit_json), edit_members, edit_directory)
NET = b"""from torch import nn


def net():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
"""
TOML = b"""input-shape = "1,6"

[check]
paths = ["*.pt"]
max-gap = 0.5
max-inactive = 100
ignore = ["EFF011"]
baseline = "base.json"

[check.layers."*"]
min-direct = 0.1

[models."model*.pt"]
claim = 0.2
pattern = "none"
"""


@dataclass(frozen=True)
class Sample:
    """The files of a folder, the name of the model among them, the edits by file, the options of every command, and the
    commands that read the edited files (`only`)."""

    files: Mapping[str, bytes]
    model: str
    edits: tuple[tuple[str, Edit], ...]
    options: tuple[str, ...] = ()
    only: tuple[str, ...] = COMMANDS


@cache
def samples() -> dict[str, Sample]:
    """Return the samples by format."""
    return {**_onnx(), **_torch(), **_folders(), **_beside()}


def _onnx() -> dict[str, Sample]:
    from benchmarks.structure.onnx_models import controlled, external, layered, quantized

    arrays = {name: tensor.numpy() for name, tensor in makers.linear().state_dict().items()}
    model, data = external(arrays)
    return {
        "ONNX": _sample("model.onnx", layered(arrays), edit_onnx),
        "ONNX, subgraphs and functions": _sample("model.onnx", controlled(arrays), edit_onnx),
        "ONNX, quantized": _sample("model.onnx", quantized(arrays), edit_onnx),
        "ONNX, external data": Sample(
            {"model.onnx": model, "weights.bin": data}, "model.onnx", (("model.onnx", edit_onnx),)
        ),
    }


def _torch() -> dict[str, Sample]:
    from safetensors.torch import save

    conv, state = makers.convolutional(), makers.linear().state_dict()
    legacy = makers.saved({"state_dict": state, "epoch": 3}, legacy=True)
    tensors = save({name: tensor.clone() for name, tensor in state.items()})
    return {
        "pickled module": _sample("model.pt", makers.saved(conv), *ARCHIVE, options=("--input-shape", "1,2,4,4")),
        "state_dict": _with_arch("model.pt", makers.saved(state), *ARCHIVE),
        "legacy state_dict": _with_arch("model.pt", legacy, edit_legacy),
        "pt2": _sample("model.pt2", makers.exported(conv), *EXPORTED),
        "safetensors": _with_arch("model.safetensors", tensors, edit_safetensors),
    }


def _folders() -> dict[str, Sample]:
    files = makers.llama()
    shards = tuple((name, edit_safetensors) for name in files if name.endswith(".safetensors"))
    return {
        "Hugging Face config": Sample(files, "llama", (("llama/config.json", edit_json),)),
        "Hugging Face shards": Sample(files, "llama", (("llama/model.safetensors.index.json", edit_json), *shards)),
    }


def _beside() -> dict[str, Sample]:
    """Return samples of files that are read in addition to a model: masks, project files, a baseline."""
    from safetensors.torch import save

    model = makers.linear()
    masks = {name.removesuffix(".weight"): t != 0 for name, t in model.state_dict().items() if t.ndim > 1}
    whole = makers.saved(model)
    base = makers.baseline(whole)
    projects = {
        "effsparse.toml": TOML,
        "pyproject.toml": b"[tool.effsparse]\n" + TOML.replace(b"\n[", b"\n[tool.effsparse."),
    }

    def masked(name: str, content: bytes, *edits: Edit) -> Sample:
        those = tuple((name, edit) for edit in edits)
        return Sample({"model.pt": whole, name: content}, "model.pt", those, ("--masks", name), MASKED)

    def project(name: str, content: bytes) -> Sample:
        files = {"model.pt": whole, "base.json": base, name: content}
        return Sample(files, "", ((name, edit_toml),), ("--config", name), ("check",))

    checked = Sample(
        {"model.pt": whole, "base.json": base},
        "model.pt",
        (("base.json", edit_json),),
        ("--baseline", "base.json"),
        ("check",),
    )
    return {
        "masks, safetensors": masked("masks.safetensors", save(masks), edit_safetensors),
        "masks, npz": masked("masks.npz", makers.npz(masks), edit_members, edit_directory, inside(".npy", edit_npy)),
        "masks, pt": masked("masks.pt", makers.saved(masks), *ARCHIVE),
        **{name: project(name, content) for name, content in projects.items()},
        "baseline": checked,
    }


def _sample(name: str, content: bytes, *edits: Edit, options: tuple[str, ...] = ()) -> Sample:
    return Sample({name: content}, name, tuple((name, edit) for edit in edits), options)


def _with_arch(name: str, content: bytes, *edits: Edit) -> Sample:
    """Return a sample of a checkpoint with the module that builds its network."""
    files, those = {name: content, "net.py": NET}, tuple((name, edit) for edit in edits)
    return Sample(files, name, those, ("--arch", "net:net", "--input-shape", "1,6"))
