"""NNI wraps each layer that it prunes: `X.module.weight` and `X.weight_mask` are X.weight, and the layer's other
tensors, `X.module.bias` for example, are X's own."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.formats.torch.conventions.found import File, Found, masked

INNER, MASK = "module", "_mask"


def find(file: File) -> Iterator[Found]:
    free = set(file.free)
    masks = {}
    for mask in file.free:
        layer, _, own = mask.removesuffix(MASK).rpartition(".")
        weight = f"{layer}.{INNER}.{own}"
        if layer and mask.endswith(MASK) and weight in free and f"{layer}.{own}" not in file.tensors:
            masks[weight] = mask
    layers = {weight.rpartition(".")[0] for weight in masks}
    for stored in file.free:
        inner, _, own = stored.rpartition(".")
        if inner in layers:
            name = f"{inner.removesuffix(INNER)}{own}"
            if stored in masks:
                yield masked(name, stored, [masks[stored]], file, beside=True)
            else:
                yield Found(name, (stored,), file.tensors[stored])
