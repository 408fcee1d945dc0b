"""The parts of an exported linear layer, which can be changed and saved again."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

MODEL, WEIGHTS, SAMPLES = "models/model.json", "data/weights/model_weights_config.json", "data/sample_inputs/model.pt"
FLOAT, LONG = 7, 5


@cache
def _members() -> dict[str, bytes]:
    torch.manual_seed(0)
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(4, 3)), (torch.zeros(2, 4),)), buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


@dataclass
class Parts:
    """An archive in parts: `program` and `weights` are parsed JSON, `members` all other members."""

    program: dict[str, Any]
    weights: dict[str, Any]
    members: dict[str, bytes]

    @property
    def graph(self) -> dict[str, Any]:
        found: dict[str, Any] = self.program["graph_module"]["graph"]
        return found

    def call(self, target: str, name: str, shape: list[int], dtype: int = FLOAT, /, **arguments: Any) -> str:
        """Append an operator call with JSON arguments."""
        inputs = [{"name": key, "arg": value, "kind": 1} for key, value in arguments.items()]
        node = {"target": target, "inputs": inputs, "outputs": [tensor(name)], "metadata": {}}
        self.graph["nodes"].append({**node, "is_hop_single_tensor_return": None, "name": name})
        self.graph["tensor_values"][name] = meta(shape, dtype)
        return name

    def finish(self, constant: str) -> None:
        """Make the output that of the linear layer times the computed value."""
        self.call("torch.ops.aten.sum.default", "total", [], self=tensor(constant))
        self.call("torch.ops.aten.mul.Tensor", "product", [2, 3], self=tensor("linear"), other=tensor("total"))
        self.graph["outputs"] = [tensor("product")]
        self.program["graph_module"]["signature"]["output_specs"] = [{"user_output": {"arg": tensor("product")}}]

    def contents(self) -> dict[str, bytes]:
        made = {MODEL: json.dumps(self.program).encode(), WEIGHTS: json.dumps(self.weights).encode()}
        return {**self.members, **made}

    def save(self, path: Path) -> Path:
        return pack(path, self.contents())


def parts() -> Parts:
    members = dict(_members())
    return Parts(json.loads(members.pop(MODEL)), json.loads(members.pop(WEIGHTS)), members)


def edited(path: Path, change: Callable[[Parts], object]) -> Path:
    made = copy.deepcopy(parts())
    change(made)
    return made.save(path)


def pack(path: Path, contents: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(f"m/{name}", content)
    return path


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def ints(*numbers: int) -> dict[str, Any]:
    return {"as_ints": list(numbers)}


def meta(shape: list[Any], dtype: int = FLOAT) -> dict[str, Any]:
    sizes = [size if isinstance(size, dict) else {"as_int": size} for size in shape]
    return {
        "dtype": dtype,
        "sizes": sizes,
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": 1} for _ in shape],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }
