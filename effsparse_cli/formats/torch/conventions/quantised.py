"""Quantised torch modules: the pair in `X._packed_params` is X.weight and X.bias, and its zero is the zero point."""

from __future__ import annotations

import re
from collections.abc import Iterator

from effsparse_cli.formats.torch.conventions.found import File, Found
from effsparse_cli.formats.torch.conventions.layouts import plain

PACKED = re.compile(r"^((?:.*\.)?)_packed_params\._packed_params\.([01])$")
PARTS = ("weight", "bias")


def find(file: File) -> Iterator[Found]:
    for stored in file.free:
        match = PACKED.match(stored)
        if match is None:
            continue
        part = PARTS[int(match[2])]
        tensor, read = plain(stored, file.tensors[stored])
        # What the activations are quantised with is no tensor of the model.
        scales = [f"{match[1]}{name}" for name in ("scale", "zero_point") if part == "weight"]
        spent = (stored, *(name for name in scales if name in file.free))
        yield Found(f"{match[1]}{part}", spent, tensor, values=read)
