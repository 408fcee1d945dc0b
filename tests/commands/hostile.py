"""Files made to do harm: each maker writes one into a folder. If its code ran, it would create the canary."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from tests.formats.torch.checkpoint.hostile import Harmful, with_pickle

CANARY = "canary"
SAMPLES = Path(__file__).parents[2] / "sample_models"


def touch(folder: Path) -> str:
    return f"touch {folder / CANARY}"


def system(folder: Path) -> Path:
    """In a dict of weights."""
    return _saved({"weight": torch.zeros(3, 3), "extra": Harmful(os.system, touch(folder))}, folder / "system.pt")


def system_legacy(folder: Path) -> Path:
    file = folder / "legacy.pt"
    torch.save({"extra": Harmful(os.system, touch(folder))}, file, _use_new_zipfile_serialization=False)
    return file


def system_module(folder: Path) -> Path:
    """Hidden in a module that is otherwise torch.nn's own."""
    model = nn.Linear(3, 3)
    model.extra = Harmful(os.system, touch(folder))  # type: ignore[assignment]
    return _saved(model, folder / "module.pt")


def evaluate(folder: Path) -> Path:
    return _saved(Harmful(eval, f"open({str(folder / CANARY)!r}, 'w')"), folder / "eval.pt")


def opened_process(folder: Path) -> Path:
    return _saved({"model": Harmful(subprocess.Popen, ["touch", str(folder / CANARY)])}, folder / "popen.pth")


def raw_pickle(folder: Path) -> Path:
    """Protocol 4, without torch around it."""
    file = folder / "raw.pkl"
    file.write_bytes(pickle.dumps(Harmful(os.system, touch(folder)), protocol=4))
    return file


def named_safetensors(folder: Path) -> Path:
    """A pickle whose name says that it is none."""
    return _saved(Harmful(os.system, touch(folder)), folder / "model.safetensors")


def hugging_face(folder: Path) -> Path:
    """A folder whose weights are a pickle, and whose configuration requests custom code."""
    home = folder / "hf"
    home.mkdir()
    _saved({"weight": Harmful(os.system, touch(folder))}, home / "pytorch_model.bin")
    code = f"import os\nos.system({touch(folder)!r})\n"
    (home / "modeling_own.py").write_text(code)
    config = {"model_type": "own", "auto_map": {"AutoModel": "modeling_own.Own"}, "architectures": ["Own"]}
    (home / "config.json").write_text(json.dumps(config))
    return home


def exported(folder: Path) -> Path:
    """A torch.export archive whose weights say that they are a pickle."""
    file, pickled = folder / "program.pt2", io.BytesIO()
    torch.save({"weight": Harmful(os.system, touch(folder))}, pickled)
    with zipfile.ZipFile(SAMPLES / "depthwise.pt2") as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith("_weights_config.json"):
                table = json.loads(content)
                for entry in table["config"].values():
                    entry["use_pickle"] = True
                content = json.dumps(table).encode()
            elif "/weights/weight" in info.filename:
                content = pickled.getvalue()
            new.writestr(info.filename, content)
    return file


class Sets(nn.Module):
    """Code that TorchScript runs while loading; a shared mapping creates a file."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.zeros(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.weight = torch.from_file("canary", True, 1)
        self.training = state[1]


def script(folder: Path) -> Path:
    torch.jit.save(torch.jit.script(Sets()), folder / "script.pt")
    return folder / "script.pt"


def forged_csr(folder: Path) -> Path:
    """Column indices far outside: reading them as they are ends the process."""
    with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
        rows, columns = torch.tensor([0, 1, 2]), torch.tensor([1 << 40, -(1 << 40)])
        forged = torch.sparse_csr_tensor(rows, columns, torch.ones(2), (2, 2), check_invariants=False)
    return _saved({"weight": forged}, folder / "csr.pt")


def forged_coo(folder: Path) -> Path:
    forged = torch.sparse_coo_tensor(
        torch.tensor([[5], [1 << 40]]), torch.ones(1), (2, 2), check_invariants=False, is_coalesced=True
    )
    return _saved({"weight": forged}, folder / "coo.pt")


def giant_coo(folder: Path) -> Path:
    giant = torch.sparse_coo_tensor(torch.tensor([[5], [7]]), torch.ones(1), (10**9, 10**9))
    return _saved({"weight": giant}, folder / "giant.pt")


def expanded(folder: Path) -> Path:
    """A few bytes that say they are a terabyte."""
    return _saved({"weight": torch.zeros(1).expand(10**6, 10**6)}, folder / "expanded.pt")


def bomb(folder: Path) -> Path:
    """A deflated pickle that grows a thousandfold."""
    whole, file = io.BytesIO(), folder / "bomb.pt"
    torch.save({"weight": torch.zeros(2)}, whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith("data.pkl"):
                # Pickle: pushes and pops of a long string, a gigabyte of it.
                with new.open(info.filename, "w", force_zip64=True) as member:
                    member.write(b"\x80\x02")
                    for _ in range(1024):
                        member.write(b"X" + struct.pack("<I", 1 << 20) + bytes(1 << 20) + b"0")
                    member.write(content[2:])
            else:
                new.writestr(info.filename, content)
    return file


def memo(folder: Path) -> Path:
    """A pickle of a few bytes whose memo would take gigabytes."""
    with_pickle(folder / "memo.pt", b"\x80\x02]r\xff\xff\xff\x7f.")
    return folder / "memo.pt"


def deep(folder: Path) -> Path:
    """A dict in a dict, a hundred thousand times."""
    depth = 100_000
    with_pickle(folder / "deep.pt", b"\x80\x02" + b"}X\x01\x00\x00\x00a" * depth + b"}" + b"s" * depth + b".")
    return folder / "deep.pt"


def long_header(folder: Path) -> Path:
    """A safetensors header that says it is an exabyte long."""
    file = folder / "header.safetensors"
    file.write_bytes(struct.pack("<Q", 1 << 60) + b'{"weight":{}}')
    return file


def wide_header(folder: Path) -> Path:
    """One whose tensor does not fit into the file."""
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1 << 31, 1 << 31], "data_offsets": [0, 1 << 62]}})
    file = folder / "wide.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(64))
    return file


def _saved(content: object, file: Path) -> Path:
    torch.save(content, file)
    return file


MAKERS: tuple[Callable[[Path], Path], ...] = (
    system,
    system_legacy,
    system_module,
    evaluate,
    opened_process,
    raw_pickle,
    named_safetensors,
    hugging_face,
    exported,
    script,
    forged_csr,
    forged_coo,
    giant_coo,
    expanded,
    bomb,
    memo,
    deep,
    long_header,
    wide_header,
)
