"""Quantised torch modules: the two tensors of `X._packed_params` are X.weight and X.bias."""

from __future__ import annotations

import re
from collections.abc import Iterator

from effsparse_cli.formats.torch.conventions.layouts import to_dense
from effsparse_cli.formats.torch.conventions.tensors import FileTensors, ModelTensor

PACKED = re.compile(r"^((?:.*\.)?)_packed_params\._packed_params\.([01])$")
PARTS = ("weight", "bias")


def find(file: FileTensors) -> Iterator[ModelTensor]:
    for stored in file.free:
        match = PACKED.match(stored)
        if match is None:
            continue
        part = PARTS[int(match[2])]
        tensor, read = to_dense(stored, file.tensors[stored])
        # The quantisation parameters of activations are not tensors of the float model.
        scales = [f"{match[1]}{name}" for name in ("scale", "zero_point") if part == "weight"]
        sources = (stored, *(name for name in scales if name in file.free))
        yield ModelTensor(f"{match[1]}{part}", sources, tensor, values=read)
