"""Small files, each below 1 MB, that would need far more memory or time than their size suggests."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.formats.torch.checkpoint import assembler as a
from tests.formats.torch.checkpoint.hostile import with_pickle

PRIME = (1 << 61) - 1
"""Integers that are equal modulo this number have equal hashes."""
OWN = a.named("some.package", "Thing")


def repeated(made: bytes, times: int) -> bytes:
    """Return a list that repeats one expression."""
    return a.listed([made] * times)


def reduced(kind: bytes, argument: bytes) -> bytes:
    return kind + argument + b"\x85" + a.REDUCE


def after(first: bytes, body: bytes) -> bytes:
    """Return a pickle with a value at index 0 of its memo."""
    return a.whole(first + a.put(0) + a.POP + body)


def doubled(levels: int, pair: Callable[[bytes], bytes]) -> bytes:
    """Return nested levels that each refer twice to the next."""
    body = a.text("x") + a.put(0)
    for level in range(levels):
        body += a.POP + pair(a.get(level)) + a.put(level + 1)
    return body


def twice(inner: bytes) -> bytes:
    return inner + inner + b"\x86"


def pickles() -> Iterator[tuple[str, bytes]]:
    """Yield contents of data.pkl by name."""
    builtins = {name: a.named("builtins", name) for name in ("list", "set", "frozenset", "dict", "bytearray", "tuple")}
    for name, kind in builtins.items():
        yield f"{name} of bytes", after(a.raw(bytes(400_000)), repeated(reduced(kind, a.get(0)), 20_000))
    numbers = a.listed(a.number(i) for i in range(60_000))
    for name in ("list", "set", "tuple"):
        yield f"{name} of a list", after(numbers, repeated(reduced(builtins[name], a.get(0)), 20_000))
    pairs = a.listed(a.number(i) + a.NONE + b"\x86" for i in range(60_000))
    ordered = a.named("collections", "OrderedDict")
    yield "OrderedDict of pairs", after(pairs, repeated(reduced(ordered, a.get(0)), 20_000))
    long = a.many(*[a.NONE] * 300_000)
    yield "a call with many arguments", after(long, repeated(OWN + a.get(0) + a.REDUCE, 20_000))
    yield "an object with many arguments", after(long, repeated(OWN + a.get(0) + a.NEWOBJ, 20_000))
    yield "keywords", after(long, repeated(OWN + a.get(0) + a.DICT + a.NEWOBJ_EX, 20_000))
    yield "a reference of many parts", after(long, repeated(a.get(0) + a.PERSID, 20_000))
    attributes = a.mapped((a.text(str(i)), a.NONE) for i in range(40_000))
    yield "a shared state", after(attributes, repeated(OWN + b")" + a.NEWOBJ + a.get(0) + a.BUILD, 15_000))
    shared = a.mapped([(a.text(str(i)), OWN + b")" + a.NEWOBJ + a.get(0) + a.BUILD) for i in range(15_000)])
    yield "a shared state by name", after(attributes, shared)
    keys = [a.number(i * PRIME) for i in range(1, 60_000)]
    yield "keys of one hash", a.whole(a.mapped((key, a.NONE) for key in keys))
    yield "keys of one hash in tuples", a.whole(a.mapped((key + b"\x85", a.NONE) for key in keys))
    yield "a set of one hash", a.whole(a.SET + a.MARK + b"".join(keys) + a.ADDITEMS)
    yield "a frozenset of one hash", a.whole(a.MARK + b"".join(keys) + b"\x91")
    yield "a set made of a list of one hash", a.whole(reduced(builtins["set"], a.listed(keys)))
    yield "entries of one hash", a.whole(OWN + b")" + a.NEWOBJ + a.MARK + a.NONE.join(keys) + a.NONE + a.SETITEMS)
    yield "a doubled tuple as a key", a.whole(a.DICT + doubled(60, twice) + a.NONE + a.SETITEM)
    yield "a doubled tuple", a.whole(doubled(60, twice))
    yield "a doubled list", a.whole(doubled(60, lambda inner: a.listed([inner, inner])))
    yield "a doubled dict", a.whole(doubled(60, lambda x: a.mapped([(a.text("a"), x), (a.text("b"), x)])))
    long_key = a.listed([a.text("x"), a.NONE]) + a.put(1) + a.POP + doubled(40, lambda x: a.listed([x, x]))
    storage = a.many(a.text("storage"), a.named("torch", "FloatStorage"), long_key, a.text("cpu"), a.number(4))
    yield "a doubled list as a storage", a.whole(storage + a.PERSID)
    huge = 1 << 7_000_000
    yield "a huge integer", a.whole(a.number(huge))
    yield "a huge integer as a key", after(a.number(huge), a.mapped([(a.get(0), a.NONE)] * 40_000))
    sizes = a.many(*[a.get(0)] * 50_000)
    shape = a.many(a.storage(), a.number(0), sizes, sizes, b"\x89", a.DICT)
    made = a.named("torch._utils", "_rebuild_tensor_v2") + shape + a.REDUCE
    yield "a shape of huge integers", after(a.number(1 << 2_000), a.mapped([(a.text("w"), made)]))
    yield "a memo", a.whole(a.LIST + b"r\xff\xff\xff\x7f")
    yield "announced bytes", b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"."
    yield "an announced frame", b"\x80\x04\x95" + (1 << 60).to_bytes(8, "little") + b"]."
    yield "sets", a.whole(a.MARK + a.SET * 400_000 + b"l")
    yield "classes", a.whole(a.listed(a.named("m", str(i)) for i in range(60_000)))
    for name, opened, closed in (("lists", a.LIST, a.APPEND), ("tuples", b"", b"\x85")):
        yield f"nested {name}", a.whole(opened * 200_000 + a.NONE + closed * 200_000)
    yield "nested dicts", a.whole((a.DICT + a.text("a")) * 90_000 + a.NONE + a.SETITEM * 90_000)
    yield "a list in itself", a.whole(a.LIST + a.put(0) + a.get(0) + a.APPEND)
    yield "a dict in itself", a.whole(a.DICT + a.put(0) + a.text("a") + a.get(0) + a.SETITEM)
    wrapped = a.named("torch._utils", "_rebuild_parameter") + a.put(1) + a.POP
    parameter = a.get(1) + a.get(2) + b"\x88" + a.DICT + b"\x87" + a.REDUCE + a.put(2) + a.POP
    chain = wrapped + a.tensor() + a.put(2) + a.POP + parameter * 40_000
    yield "a chain of parameters", a.whole(chain + a.mapped([(a.text("w"), a.get(2))]))
    yield "a tensor under many names", after(a.tensor(), a.mapped((a.text(f"{i}"), a.get(0)) for i in range(80_000)))
    yield "tensors over one storage", over_one_storage(f"{i}.w" for i in range(14_000))
    yield "originals", over_one_storage(f"{i}.parametrizations.weight.original" for i in range(8_000))
    yield "masks", over_one_storage(f"{i}.a.b.weight{end}" for i in range(4_000) for end in ("", "_mask"))
    yield "a long name", a.state_dict([("state." * 100_000 + "mask", a.tensor())])
    yield "huge strides", a.state_dict([("w", a.tensor((2, 2), (1 << 61, 1 << 61)))])
    yield "a negative offset", a.state_dict([("w", a.tensor((2, 2), (2, 1), -4))])
    yield "negative strides", a.state_dict([("w", a.tensor((2, 2), (-2, 1), 2))])
    yield "a huge storage", a.state_dict([("w", a.tensor(memory=a.storage(numel=1 << 60)))])
    yield "many axes", a.state_dict([("w", a.tensor([1] * 50_000, [1] * 50_000))])


def over_one_storage(names: Iterator[str]) -> bytes:
    """Return 2x2 tensors of one storage under all these names."""
    maker, sizes = a.named("torch._utils", "_rebuild_tensor_v2"), a.number(2) + a.number(2) + b"\x86"
    args = a.many(a.storage(), a.number(0), sizes, a.number(2) + a.number(1) + b"\x86", b"\x89", a.DICT)
    body = maker + a.put(1) + a.POP + args + a.put(0) + a.POP
    return a.whole(body + a.mapped((a.text(name), a.get(1) + a.get(0) + a.REDUCE) for name in names))


def modules() -> Iterator[tuple[str, nn.Module]]:
    """Yield modules of torch.nn classes whose sizes do not match their weights, by name."""
    yield "forty nested containers", nested(40, lambda inner: nn.Sequential(inner, inner))
    yield "deep containers", nested(3000, nn.Sequential)
    yield "a wide container", nn.Sequential(*[nn.Linear(2, 2)] * 20_000)
    itself = nn.Sequential(nn.Linear(2, 2))
    itself._modules["1"] = itself
    yield "a container in itself", itself
    yield "layers", changed(nn.LSTM(2, 2), num_layers=10**12, _all_weights=[[0]])
    yield "hidden size", changed(nn.LSTM(2, 2), hidden_size=10**12)
    yield "input size", changed(nn.LSTM(2, 2), input_size=10**12)
    yield "features", changed(nn.Linear(2, 2), in_features=10**12)
    yield "embeddings", changed(nn.Embedding(4, 2), num_embeddings=10**12, padding_idx=10**11)
    yield "embedding dimension", nn.Sequential(changed(nn.Embedding(4, 2), embedding_dim=10**12), nn.Linear(2, 2))
    yield "parameters", nn.Sequential(nn.Linear(2, 2), changed(nn.ParameterList([torch.ones(2)]), _size=10**12))
    forged: dict[str, dict[str, Any]] = {
        "channels": {"in_channels": 10**12},
        "groups": {"groups": 10**9},
        "kernel": {"kernel_size": (10**9, 10**9)},
        "stride": {"stride": (10**9, 10**9)},
        "padding": {"padding": (10**9, 10**9)},
        "dilation": {"dilation": (10**9, 10**9)},
    }
    for name, sizes in forged.items():
        yield name, changed(nn.Conv2d(3, 2, 3), **sizes)
    first = nn.Linear(2, 2)
    yield "upsampling", nn.Sequential(first, nn.Unflatten(1, (1, 2)), nn.Upsample(scale_factor=1e9))
    yield "a large padding", nn.Sequential(first, nn.Unflatten(1, (1, 1, 2)), nn.ZeroPad2d(4000), nn.Conv2d(1, 4, 3))
    yield "a large pooling", nn.Sequential(first, nn.Unflatten(1, (1, 1, 2)), nn.AdaptiveAvgPool2d(4000), nn.ReLU())
    yield "lazy", nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(10**9))
    wide = nn.Linear(2, 2)
    wide.weight = nn.Parameter(torch.ones(1).expand(2800, 2800))
    wide.bias = nn.Parameter(torch.zeros(2800))
    yield "an expanded weight", changed(wide, in_features=2800, out_features=2800)


def nested(levels: int, around: Callable[[nn.Module], nn.Module]) -> nn.Module:
    module: nn.Module = nn.Linear(2, 2)
    for _ in range(levels):
        module = around(module)
    return module


def changed(module: nn.Module, **attributes: Any) -> nn.Module:
    vars(module).update(attributes)
    return module


def save_module(path: Path, module: nn.Module, **form: Any) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        torch.save(module, path, **form)
    finally:
        sys.setrecursionlimit(before)


def archives() -> Iterator[tuple[str, Callable[[Path], None]]]:
    yield "an expanded tensor", saving({"w": torch.zeros(1).expand(10**6, 10**6)})
    yield "an expanded tensor within bounds", saving({"w": torch.ones(1).expand(2800, 2800)})
    yield "expanded bytes", saving({"w": torch.ones(1, dtype=torch.int8).expand(2800, 2800), "v": torch.ones(2, 2)})
    coo = torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.int64), torch.ones(1), (10**9, 10**9))
    yield "a giant sparse tensor", saving({"w": coo})
    small = torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.int64), torch.ones(1), (2800, 2800))
    yield "a sparse tensor within bounds", saving({"w": small})
    quantised = torch._empty_affine_quantized([1], scale=0.5, zero_point=0, dtype=torch.qint8)
    yield "an expanded quantised tensor", saving({"w": quantised.expand(10**5, 10**5)})
    deflated = a.whole(a.raw(bytes(120 << 20)))
    yield "deflated bytes", lambda path: with_pickle(path, deflated, zipfile.ZIP_DEFLATED)
    operations = a.whole(a.MARK + a.SET * 5_000_000 + b"l")
    yield "deflated operations", lambda path: with_pickle(path, operations, zipfile.ZIP_DEFLATED)
    names = over_one_storage(f"{i}.weight" for i in range(60_000))
    yield "deflated names", lambda path: with_pickle(path, names, zipfile.ZIP_DEFLATED)
    yield "legacy bytes", lambda path: legacy(path, b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little"))
    yield "a legacy storage", legacy_storage
    yield "a script", script


def saving(content: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path)


def legacy(path: Path, pickle: bytes) -> None:
    """Write the legacy format with another pickle as its content."""
    stream = io.BytesIO()
    torch.save({"w": torch.ones(2, 2)}, stream, _use_new_zipfile_serialization=False)
    data = stream.getvalue()
    start = data.index(b"\x80\x02}q", data.index(b"little_endian") + 20)
    path.write_bytes(data[:start] + pickle)


def legacy_storage(path: Path) -> None:
    stream = io.BytesIO()
    torch.save({"w": torch.ones(2, 2)}, stream, _use_new_zipfile_serialization=False)
    data = stream.getvalue()
    path.write_bytes(data[:-24] + (1 << 61).to_bytes(8, "little") + data[-16:])


def script(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        content = a.named("__torch__", "Net") + b")" + a.NEWOBJ + a.mapped([(a.text("w"), a.tensor())]) + a.BUILD
        archive.writestr("m/data.pkl", a.whole(content))
        archive.writestr("m/constants.pkl", a.whole(a.raw(bytes(1 << 26))))
        archive.writestr("m/code/__torch__.py", "x = 1\n" * (1 << 23))
        archive.writestr("m/data/0", bytes(16))


def write_all(folder: Path) -> dict[str, Path]:
    """Write all files and return them by name."""
    writers: list[tuple[str, Callable[[Path], None]]] = [
        *((name, partial(with_pickle, data=data)) for name, data in pickles()),
        *((name, partial(save_module, module=module)) for name, module in modules()),
        *archives(),
    ]
    found = {}
    for name, write in writers:
        found[name] = folder / f"{name.replace(' ', '-')}.pt"
        write(found[name])
    return found
