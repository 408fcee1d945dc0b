"""Files of torch.save are read as data: every format that torch writes gives the same tensors, nothing in a file is
executed, and files that would cost too much are refused."""

from __future__ import annotations

import argparse
import enum
import io
import pathlib
import pickle
import subprocess
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.torch.checkpoint.storage import is_mapped
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors
from tests.formats.torch.checkpoint.hostile import calls, embeddings, with_pickle

FORMS = {
    "zip": {},
    "legacy": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
}
TENSORS = {
    "floats": torch.randn(3, 4),
    "view": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)[1:],
    "scalar": torch.tensor(3),
    "empty": torch.empty(0, 5),
    "half": torch.randn(3).half(),
    "brain": torch.randn(3).bfloat16(),
    "eight": torch.randn(4).to(torch.float8_e4m3fn),
    "bools": torch.tensor([[True, False]]),
    "complex": torch.randn(2, dtype=torch.complex64),
    "unsigned": torch.tensor([1, 2], dtype=torch.uint16),
    "parameter": nn.Parameter(torch.randn(2, 2)),
    "expanded": torch.ones(1).expand(50, 50),
}


def read(path: Path, key: str = "") -> dict[str, torch.Tensor]:
    return dict(read_tensors(open_pickled(path), key).tensors)


@pytest.mark.parametrize("form", FORMS)
def test_tensors_equal_those_of_torch(tmp_path: Path, form: str) -> None:
    torch.save(TENSORS, tmp_path / "m.pt", **FORMS[form])  # type: ignore[arg-type]
    found = read(tmp_path / "m.pt")
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name].view(torch.uint8) if name == "eight" else found[name],
                           tensor.view(torch.uint8) if name == "eight" else tensor.detach()), name  # fmt: skip


def test_sparse_and_quantised_tensors(tmp_path: Path) -> None:
    dense = torch.tensor([[0.0, 2, 0, 0], [3, 0, 0, 4]])
    blocks = torch.kron(torch.eye(2), torch.ones(2, 2))
    stored = {
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": blocks.to_sparse_bsr((2, 2)),
        "q": torch.quantize_per_tensor(dense, 0.5, 3, torch.qint8),
        "qc": torch.quantize_per_channel(dense, torch.tensor([0.5, 1.0]), torch.tensor([1, 0]), 0, torch.quint8),
    }
    torch.save(stored, tmp_path / "m.pt")
    found = read(tmp_path / "m.pt")
    for name, tensor in stored.items():
        assert found[name].layout == tensor.layout
        dense_tensor = found[name].dequantize() if name[0] == "q" else found[name].to_dense()
        assert torch.equal(dense_tensor, blocks if name == "bsr" else dense)


def test_tied_tensors_share_mapped_memory(tmp_path: Path) -> None:
    weight = torch.randn(64, 64)
    torch.save({"a": weight, "b": weight[1:], "c": weight.t()}, tmp_path / "m.pt")
    found = read(tmp_path / "m.pt")
    assert is_mapped(found["a"])
    assert len({tensor.untyped_storage().data_ptr() for tensor in found.values()}) == 1
    copied = read_tensors(open_pickled(tmp_path / "m.pt").copied(), "").tensors
    assert not is_mapped(copied["a"])


class Colour(enum.Enum):
    RED = 1


class Settings:
    def __init__(self) -> None:
        self.rate = 0.1


@pytest.mark.parametrize("form", FORMS)
def test_other_objects_next_to_weights(tmp_path: Path, form: str) -> None:
    """torch refuses NumPy scalars, Namespace, paths, enums and custom classes; here they are inert."""
    others: dict[str, Any] = {
        "loss": np.float64(0.5),
        "args": argparse.Namespace(lr=0.1, path=pathlib.Path("x")),
        "colour": Colour.RED,
        "settings": Settings(),
        "seen": defaultdict(list, {1: [2]}),
        "order": OrderedDict(a={1, 2}, b=frozenset([3])),
    }
    torch.save({**others, "state_dict": nn.Linear(4, 3).state_dict()}, tmp_path / "m.pt", **FORMS[form])  # type: ignore[arg-type]
    opened = open_pickled(tmp_path / "m.pt")
    assert list(read_tensors(opened, "").tensors) == ["weight", "bias"]
    assert "argparse.Namespace" in opened.global_names


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", [*calls(Path())])
def test_harmful_pickles_are_not_executed(tmp_path: Path, form: str, call: str) -> None:
    canary = tmp_path / "canary"
    harmful = calls(canary)[call]
    for where, content in embeddings(harmful).items():
        torch.save(content, tmp_path / "bad.pt", **FORMS[form])  # type: ignore[arg-type]
        with pytest.raises(RefusedError, match=f"{call.rpartition('.')[2]}.*None of its code was run") as caught:
            read(tmp_path / "bad.pt")
        assert "\n" not in str(caught.value), where
        assert not canary.exists(), where


def test_harmful_names_are_reported_despite_damage(tmp_path: Path) -> None:
    with_pickle(tmp_path / "bad.pt", b"\x80\x02cos\nsystem\nX\x01\x00\x00\x00x\x85R0h\x63.")
    with pytest.raises(RefusedError, match=r"os\.system"):
        read(tmp_path / "bad.pt")


def test_meta_tensors_are_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.empty(3, 3, device="meta")}, tmp_path / "m.pt")
    with pytest.raises(LoadError, match="meta device"):
        read(tmp_path / "m.pt")


def test_pickles_that_torch_did_not_write(tmp_path: Path) -> None:
    for protocol in (2, 4, 5):
        (tmp_path / "m.pt").write_bytes(pickle.dumps({"weight": [1.0]}, protocol))
        with pytest.raises(LoadError, match=r"torch\.save did not write"):
            read(tmp_path / "m.pt")


BOMBS = {
    "memo": b"\x80\x02]r\xff\xff\xff\x7f.",
    "sets": b"\x80\x02(" + b"\x8f" * 5_000_000 + b"l.",
    "resize": b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(("
    b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQK\x00J\x00\xe1\xf5\x05J\x00\xe1\xf5\x05\x86K\x01K\x01\x86\x89}tRs.",
    "numbers": b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x40\x85R.",
    "cut": b"\x80\x02}X\xff\xff\xff\x7f.",
}


def test_pickles_that_cost_too_much(tmp_path: Path) -> None:
    """The process is limited to 3 GiB, including torch itself."""
    for name, bomb in BOMBS.items():
        with_pickle(tmp_path / f"{name}.pt", bomb)
    code = (
        "import resource, sys; from pathlib import Path; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from effsparse_cli.errors import LoadError\n"
        "from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors\n"
        "for file in sys.argv[1:]:\n"
        "    try: read_tensors(open_pickled(Path(file)), '')\n"
        "    except LoadError as error: print('refused', error)"
    )
    files = [str(tmp_path / f"{name}.pt") for name in BOMBS]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["refused"] * len(BOMBS), done.stderr[-500:]


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(1).expand(10**6, 10**6), "over 100 times the size"),
        (
            torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.int64), torch.ones(1), (10**9, 10**9)),
            "over 100 times",
        ),
    ],
)
def test_small_files_with_giant_tensors(tmp_path: Path, tensor: torch.Tensor, expected: str) -> None:
    torch.save({"weight": tensor}, tmp_path / "m.pt")
    assert (tmp_path / "m.pt").stat().st_size < 3000
    with pytest.raises(LoadError, match=expected):
        read(tmp_path / "m.pt")


def test_forged_sparse_indices(tmp_path: Path) -> None:
    """torch would follow them out of bounds and crash."""
    with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
        values, far = torch.ones(2), torch.tensor([0, 10**7])
        forged = {
            "csr": torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), far, values, (2, 2)),
            "crow": torch.sparse_csr_tensor(torch.tensor([0, 10**7, 2]), torch.tensor([0, 1]), values, (2, 2)),
            "coo": torch.sparse_coo_tensor(torch.stack([far, far]), values, (2, 2)),
        }
        for name, tensor in forged.items():
            torch.save({"weight": tensor}, tmp_path / f"{name}.pt")
    for name in forged:
        with pytest.raises(LoadError, match="a tensor is invalid"):
            read(tmp_path / f"{name}.pt")


def test_damaged_legacy_files(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(50, 50)}, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    whole = (tmp_path / "m.pt").read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:200], whole[:30]):
        (tmp_path / "m.pt").write_bytes(damaged)
        with pytest.raises(LoadError, match="damaged"):
            read(tmp_path / "m.pt")
    at = len(whole) - 50 * 50 * 4 - 8
    (tmp_path / "m.pt").write_bytes(whole[:at] + b"\xff\xff\xff\xff\x00\x00\x00\x00" + whole[at + 8 :])
    with pytest.raises(LoadError, match="do not have the stated sizes"):
        read(tmp_path / "m.pt")


def test_tensor_subclasses(tmp_path: Path) -> None:
    stream = io.BytesIO()
    torch.save({"weight": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])}, stream)
    (tmp_path / "m.pt").write_bytes(stream.getvalue())
    with pytest.raises(LoadError, match="cannot be read as data"):
        read(tmp_path / "m.pt")
