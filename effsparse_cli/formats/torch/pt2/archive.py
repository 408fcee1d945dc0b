"""Read an archive of torch.export.save: the program as parsed JSON, its stored tensors and its constants. Pickles are
refused, except those of older versions of torch, which are read as data. Dtypes, sizes and layouts of tensors are
checked before tensors are made."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.formats.sniff import LEGACY_PROGRAM
from effsparse_cli.formats.torch.checkpoint.content import EXPORT_AGAIN, damage_on_error
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor
from effsparse_cli.formats.torch.checkpoint.storage import Archive, open_archive
from effsparse_cli.formats.torch.checkpoint.torch_save import PickledFile, open_pickled
from effsparse_cli.formats.torch.pt2.parse import as_bool, as_int, as_text, parse
from effsparse_cli.formats.torch.pt2.sizes import Sizes
from effsparse_cli.formats.zip_members import STORED, read_members

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
"""Members that torch.export.save writes; compiled libraries and pickled objects are not allowed."""
SAMPLES = re.compile(r"data/sample_inputs/\w+\.pt|serialized_example_inputs\.pt")
LEGACY_STORED, LEGACY_CONSTANTS = "serialized_state_dict", "serialized_constants"
NEEDS_CODE = "cannot be read without running code"
NOT_RUN = "None of its code was run. Export the model again from regular parameters, or to ONNX."

Tensors = dict[str, torch.Tensor]
Offsets = dict[str, int]
T = TypeVar("T")
DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 9: torch.complex32, 10: torch.complex64, 11: torch.complex128, 12: torch.bool,
    13: torch.bfloat16, 28: torch.uint16, 29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 31: torch.float8_e4m3fnuz,
    32: torch.float8_e5m2fnuz, 33: torch.float8_e8m0fnu, 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
"""By the numbers of torch._export.serde.schema.ScalarType."""
STRIDED = 7
LAYOUTS = {STRIDED: torch.strided}
MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
MAX_ELEMENTS, MAX_RANK = 1 << 33, 64
MAX_REPEATED = 1 << 20
"""Elements that a stored tensor may have if it repeats its memory."""


@dataclass(frozen=True)
class ProgramContent:
    """The content of an archive: `program` is parsed JSON, `offsets` are those of raw weights in the file."""

    program: Any
    stored: Tensors
    constants: Tensors
    offsets: Offsets


def read_archive(path: Path, copied: bool = False) -> ProgramContent:
    """Read an archive; with `copied`, its tensors are copies that may be written to."""
    legacy = any(member.name == LEGACY_PROGRAM for member in read_members(path))
    archive = open_archive(path, in_folder=not legacy)
    packed = next((name for name, member in archive.members.items() if member.method != STORED), None)
    if packed is not None:
        raise LoadError(f"{path} is refused: {packed} is compressed, unlike in files of torch.export.save.")
    with damage_on_error(path, EXPORT_AGAIN):
        _check_members(path, archive)
        if legacy:
            return _read_legacy(path, archive)
        model = _model_name(path, archive)
        program = parse(archive.read(f"models/{model}.json"))
        weights, offsets = _read_tensors(path, archive, WEIGHTS, model, copied)
        constants, _ = _read_tensors(path, archive, CONSTANTS, model, copied)
        return ProgramContent(program, weights, constants, offsets)


def _check_members(path: Path, archive: Archive) -> None:
    """Refuse members that only code could read, even unused ones: other programs would read them."""
    for name in archive.members:
        if not MEMBERS.fullmatch(name):
            raise RefusedError(f"{path} {NEEDS_CODE}: it contains {name}. {NOT_RUN}")
        if SAMPLES.fullmatch(name):
            _open_pickled(path, archive, name, lambda opened: None)


def _model_name(path: Path, archive: Archive) -> str:
    """Return the program that torch.export.load would choose."""
    names = [match[1] for name in archive.members if (match := MODEL.fullmatch(name))]
    if len(names) == 1 or "model" in names:
        return "model" if "model" in names else names[0]
    raise LoadError(f"{path} contains {len(names)} programs, and none is named model. Save one program per file.")


def _read_tensors(path: Path, archive: Archive, folder: str, model: str, copied: bool) -> tuple[Tensors, Offsets]:
    """Return the tensors that an index lists, tied ones sharing memory, and their offsets in the file."""
    if f"{folder}/{model}.pt" in archive.members:
        return _read_pickled(path, archive, f"{folder}/{model}.pt"), {}
    records: Tensors = {}
    tensors: Tensors = {}
    offsets: Offsets = {}
    config = parse(archive.read(f"{folder}/{model}_{INDEX[folder]}.json"))["config"]
    for name, entry in config.items():
        record = as_text(entry["path_name"])
        if as_bool(entry["use_pickle"]) or entry["tensor_meta"] is None or not RECORD.fullmatch(record):
            raise RefusedError(f"{path} {NEEDS_CODE}: {name} is pickled. {NOT_RUN}")
        if record not in records:
            memory = archive.memory(f"{folder}/{record}")
            records[record] = memory.clone() if copied else memory
        tensors[name] = make_view(records[record], entry["tensor_meta"])
        inside = int(tensors[name].storage_offset()) * tensors[name].element_size()
        offsets[name] = archive.members[f"{folder}/{record}"].start + inside
    return tensors, offsets


def _read_legacy(path: Path, archive: Archive) -> ProgramContent:
    """Read the format before torch 2.7, where the state_dict is a torch.save file in the archive."""
    program = parse(archive.read(LEGACY_PROGRAM))
    # The first versions had no constants, and named the pickles .json.
    ending = ".pt" if f"{LEGACY_STORED}.pt" in archive.members else ".json"
    constants = f"{LEGACY_CONSTANTS}{ending}"
    held = _read_pickled(path, archive, constants) if constants in archive.members else {}
    return ProgramContent(program, _read_pickled(path, archive, f"{LEGACY_STORED}{ending}"), held, {})


def _read_pickled(path: Path, archive: Archive, name: str) -> Tensors:
    """Read a dictionary of tensors that torch.save wrote. Other objects belong to operators that are not run."""

    def tensors(opened: PickledFile) -> Tensors:
        if not isinstance(opened.content, Mapping):
            raise LoadError(f"{opened.path} is refused: it is not a dictionary of tensors. Export the model again.")
        found = {str(key): value for key, value in opened.content.items() if is_tensor(value)}
        return {key: opened.tensors.read(value) for key, value in found.items()}

    return _open_pickled(path, archive, name, tensors) or {}


def _open_pickled(path: Path, archive: Archive, name: str, use: Callable[[PickledFile], T]) -> T | None:
    """Open a torch.save file in the archive as data."""
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


def read_layout(meta: Any, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return sizes, strides and offset."""
    if as_int(meta["layout"]) != STRIDED:
        raise LoadError("the program has a sparse tensor, which is not supported in .pt2 files. Export it dense.")
    shape, strides = (tuple(sizes.size(n) for n in meta[key]) for key in ("sizes", "strides"))
    offset = sizes.size(meta["storage_offset"])
    if len(shape) != len(strides) or len(shape) > MAX_RANK or min((*shape, *strides, offset), default=0) < 0:
        raise ValueError("the shape of a tensor is invalid")
    if math.prod(max(1, n) for n in shape) > MAX_ELEMENTS:
        raise LoadError(f"the program has a value of shape {'x'.join(map(str, shape))}, which is too large.")
    return shape, strides, offset


def make_meta(meta: Any, sizes: Sizes) -> torch.Tensor:
    """Return a meta tensor."""
    shape, strides, _ = read_layout(meta, sizes)
    span = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) if all(shape) else 0
    if span > MAX_ELEMENTS:
        raise ValueError("the strides of a tensor are invalid")
    return torch.empty_strided(shape, strides, dtype=DTYPES[as_int(meta["dtype"])], device="meta")


def make_view(memory: torch.Tensor, meta: Any) -> torch.Tensor:
    """Return a tensor as a view of a record, after checking that it is inside."""
    shape, strides, offset = read_layout(meta, Sizes())
    dtype = DTYPES[as_int(meta["dtype"])]
    count, rest = divmod(len(memory), dtype.itemsize)
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if rest or last >= count:
        raise ValueError("a tensor is not inside its record")
    if math.prod(shape) > max(count, MAX_REPEATED):
        raise ValueError("a tensor is larger than its record")
    return memory.view(dtype).as_strided(shape, strides, offset)
