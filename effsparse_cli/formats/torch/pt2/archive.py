"""The archive of torch.export.save: a path enters; the program as parsed JSON, its stored tensors and its constants
leave. Pickles in it are refused, but for those of older versions of torch, which are read as data."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.sniff import LEGACY_PROGRAM
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor
from effsparse_cli.formats.torch.checkpoint.storage.archive import Archive, open_archive
from effsparse_cli.formats.torch.checkpoint.torch_save import Opened, open_pickled
from effsparse_cli.formats.torch.pt2.parse import as_bool, as_text, described_by, parse
from effsparse_cli.formats.torch.pt2.tensors import stored
from effsparse_cli.formats.zip_members import STORED, Member, read_members

RECORD = re.compile(r"(weight|tensor)_\d{1,9}")
MODEL = re.compile(r"models/(\w{1,200})\.json")
WEIGHTS, CONSTANTS = "data/weights", "data/constants"
INDEX = {WEIGHTS: "weights_config", CONSTANTS: "constants_config"}
MEMBERS = re.compile(
    r"models/\w+\.json|data/weights/(\w+_weights_config\.json|weight_\d+|\w+\.pt)|data/sample_inputs/\w+\.pt|"
    r"data/constants/(\w+_constants_config\.json|tensor_\d+|\w+\.pt)|archive_format|archive_version|byteorder|version|"
    r"\.data/\w+|\.format_version|\.storage_alignment|extra/.*|extra_files/.*|"
    r"serialized_(exported_program|state_dict|constants|example_inputs)\.(json|pt)"
)
"""What torch.export.save writes. Compiled libraries and pickled objects are not among it."""
SAMPLES = re.compile(r"data/sample_inputs/\w+\.pt|serialized_example_inputs\.pt")
LEGACY_STORED, LEGACY_CONSTANTS = "serialized_state_dict", "serialized_constants"
WOULD_RUN = "would have to run code to be read"
EXPORT_AGAIN = "Nothing of it was run. Export the model again from plain parameters, or to ONNX."

Tensors = dict[str, torch.Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where a stored tensor is: the member of the archive, and how it lies in it."""

    member: Member
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """`program` is parsed JSON, `places` tell where raw weights are in the file."""

    program: Any
    stored: Tensors
    constants: Tensors
    places: Mapping[str, Place]


def read_archive(path: Path, copied: bool = False) -> Content:
    """`copied`: tensors in memory of their own, which may be written to."""
    legacy = any(member.name == LEGACY_PROGRAM for member in read_members(path))
    archive = open_archive(path, foldered=not legacy)
    packed = next((name for name, member in archive.members.items() if member.method != STORED), None)
    if packed is not None:
        raise LoadError(f"{path} is refused: {packed} in it is compressed, which torch.export.save never does")
    with described_by(path):
        _check_members(path, archive)
        if legacy:
            return _read_legacy(path, archive)
        model = _model_name(path, archive)
        program = parse(archive.read(f"models/{model}.json"))
        weights, places = _read_tensors(path, archive, WEIGHTS, model, copied)
        constants, _ = _read_tensors(path, archive, CONSTANTS, model, copied)
        return Content(program, weights, constants, places)


def _check_members(path: Path, archive: Archive) -> None:
    """Refuse what only code could read, also where nothing here would read it: other programs would."""
    for name in archive.members:
        if not MEMBERS.fullmatch(name):
            raise RefusedError(f"{path} {WOULD_RUN}: it holds {name}. {EXPORT_AGAIN}")
        if SAMPLES.fullmatch(name):
            _open_pickled(path, archive, name, lambda opened: None)


def _model_name(path: Path, archive: Archive) -> str:
    """The one that torch.export.load gives where there are several."""
    names = [match[1] for name in archive.members if (match := MODEL.fullmatch(name))]
    if len(names) == 1 or "model" in names:
        return "model" if "model" in names else names[0]
    raise LoadError(f"{path} holds {len(names)} programs and none is called model. Save the one you mean alone.")


def _read_tensors(
    path: Path, archive: Archive, folder: str, model: str, copied: bool
) -> tuple[Tensors, dict[str, Place]]:
    """The tensors that an index lists, tied ones in the same memory."""
    if f"{folder}/{model}.pt" in archive.members:
        return _read_pickled(path, archive, f"{folder}/{model}.pt"), {}
    records: Tensors = {}
    tensors: Tensors = {}
    places: dict[str, Place] = {}
    config = parse(archive.read(f"{folder}/{model}_{INDEX[folder]}.json"))["config"]
    for name, entry in config.items():
        record = as_text(entry["path_name"])
        if as_bool(entry["use_pickle"]) or entry["tensor_meta"] is None or not RECORD.fullmatch(record):
            raise RefusedError(f"{path} {WOULD_RUN}: {name} in it is pickled. {EXPORT_AGAIN}")
        if record not in records:
            memory = archive.memory(f"{folder}/{record}")
            records[record] = memory.clone() if copied else memory
        tensors[name] = stored(records[record], entry["tensor_meta"])
        places[name] = Place(archive.members[f"{folder}/{record}"], entry["tensor_meta"])
    return tensors, places


def _read_legacy(path: Path, archive: Archive) -> Content:
    """Until torch 2.7: the state_dict is a file of torch.save inside the zip file."""
    program = parse(archive.read(LEGACY_PROGRAM))
    # The first versions had no file of constants, and called the pickles .json.
    ending = ".pt" if f"{LEGACY_STORED}.pt" in archive.members else ".json"
    constants = f"{LEGACY_CONSTANTS}{ending}"
    held = _read_pickled(path, archive, constants) if constants in archive.members else {}
    return Content(program, _read_pickled(path, archive, f"{LEGACY_STORED}{ending}"), held, {})


def _read_pickled(path: Path, archive: Archive, name: str) -> Tensors:
    """A dictionary of tensors that torch.save wrote, as data. Objects of other kinds are left out: they belong to
    operators that are not run."""

    def tensors(opened: Opened) -> Tensors:
        if not isinstance(opened.content, Mapping):
            raise LoadError(f"{opened.path} is refused: it is not a dictionary of tensors")
        found = {str(key): value for key, value in opened.content.items() if is_tensor(value)}
        return {key: opened.tensors.make(value) for key, value in found.items()}

    return _open_pickled(path, archive, name, tensors) or {}


def _open_pickled(path: Path, archive: Archive, name: str, use: Callable[[Opened], T]) -> T | None:
    """A file of torch.save inside the archive, which is opened as data."""
    content = archive.read(name)
    if not content:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.pt"
        file.write_bytes(content)
        try:
            return use(open_pickled(file).copied())
        except LoadError as error:
            raise type(error)(str(error).replace(str(file), f"{name} in {path}")) from error
