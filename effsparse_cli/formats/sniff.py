"""Detect the format of a file from its content, never from its name. The error for other files says what they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from effsparse_cli import files
from effsparse_cli.errors import LoadError
from effsparse_cli.formats.absent import absent_error
from effsparse_cli.formats.zip_members import check_case, check_names, read_members

ONNX_FIELDS = {1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26}
"""Field numbers of onnx.ModelProto; 7 is the graph."""
LEGACY_PROGRAM = "serialized_exported_program.json"
"""Member of the archives that torch.export.save wrote until torch 2.7, which have no folder."""
EXPECTED = "Pass a file written by torch.save, torch.export.save or safetensors, or an ONNX model"
FOLDER_FILES = ("config.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def sniff(path: Path) -> str:
    """Return `onnx`, `exported` (torch.export), `pickled` (torch.save, zip or legacy), `script` (TorchScript),
    `safetensors`, or `folder` (Hugging Face)."""
    if os.path.isdir(path):
        return _sniff_folder(path)
    if not os.path.exists(path):
        raise absent_error(path)
    with _opened(path) as file:
        head = file.read(512)
        if not head:
            raise LoadError(f"{path} is empty. Download or copy it again")
        if head.startswith(b"PK"):
            return _sniff_zip(path)
        if head[8:9] == b"{":
            return "safetensors"  # before pickles: a header of 640 bytes begins like one
        if head[:1] == b"\x80" and len(head) > 1 and head[1] in range(2, 6):
            return "pickled"
        if _is_onnx(file):
            return "onnx"
    raise LoadError(f"{path} is not a model: {_describe(head)}")


def _opened(path: Path) -> BinaryIO:
    try:
        return files.note_read(path).open("rb")
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror or error}") from error


def _sniff_zip(path: Path) -> str:
    members = read_members(path)
    names = [member.name for member in members]
    if LEGACY_PROGRAM in names:
        check_case(path, members)
        return "exported"
    names += [name.partition("/")[2] for name in names]
    if any(name.startswith("models/") for name in names):
        found = "exported"
    elif any(name.startswith("code/") or name == "constants.pkl" for name in names):
        found = "script"
    elif "data.pkl" in names:
        found = "pickled"
    else:
        raise LoadError(f"{path} is a zip file that was written by neither torch.save nor torch.export.save")
    check_names(path, members)
    return found


def _describe(head: bytes) -> str:
    text = head.lstrip().lower()
    if text.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer. Fetch the file itself with `git lfs pull`"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "it is a web page, probably an error page saved instead of the model. Download it again"
    if all(byte >= 32 or byte in b"\t\r\n\f" for byte in head):
        return f"it is a text file. {EXPECTED}"
    return f"its format is unknown. {EXPECTED}"


def _sniff_folder(path: Path) -> str:
    if any((path / name).exists() for name in FOLDER_FILES) or any(path.glob("*.safetensors")):
        return "folder"
    raise LoadError(
        f"{path} is a folder without config.json and weights (.safetensors, pytorch_model.bin). Pass a model file "
        "or a Hugging Face folder"
    )


def _is_onnx(file: BinaryIO) -> bool:
    """Walk the top-level protobuf fields without reading their content. All must be fields of an ONNX model, and one
    must be its graph. A truncated model counts: parsing it reports what is missing."""
    size = file.seek(0, 2)
    file.seek(0)
    fields = set()
    while file.tell() < size:
        key = _varint(file)
        field, wire = (key >> 3, key & 7) if key is not None else (0, 0)
        if field not in ONNX_FIELDS or wire not in (0, 2):
            return False
        length = _varint(file)
        if length is None:
            return False
        fields.add(field)
        if wire == 2:
            file.seek(length, 1)
    return 7 in fields


def _varint(file: BinaryIO) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None
