"""Masks written into an ONNX model: the file as it was, with every weight that is not kept at zero (a quantised one
at its zero point). Everything else keeps its bytes; external data stays external, beside the new file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from onnx import ModelProto, SparseTensorProto, TensorProto, numpy_helper

from effsparse_cli.errors import EffsparseError, UsageError
from effsparse_cli.formats.onnx.external import is_external, section
from effsparse_cli.formats.onnx.file import open_model
from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.formats.onnx.tensors.masked import masked_tensors, stored_mask, zeroed
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.onnx.tensors.read import packed_size
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.saving.atomic import Check, check_target, replacing
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools

INSTEAD = "Use --masks-only"
TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass(frozen=True)
class Patch:
    """The tensor that holds some numbers, and what reads those that it is to hold."""

    tensor: TensorProto
    read: Callable[[], Array]


def write_onnx(
    source: Path,
    target: Path,
    kept: Mapping[str, Bools],
    options: LoadOptions | None = None,
    values: Mapping[str, Array] | None = None,
    check: Check | None = None,
) -> None:
    """`kept` by layer name, each in the shape of its layer; `values` are other weights for some. A layer that is not
    named keeps all of its weights. Masks that the file multiplies weights with are written too."""
    check_target(target, "the output", [source])
    model = open_model(source)
    graph, store = build(model, source, options or LoadOptions())
    _check(kept, graph.layers)
    names = layer_names(model)
    stored = {names[key]: tensor for key, tensor, _ in tensors(model)}
    values = values or {}
    changed = [name for name in kept if name in values or (kept[name] != graph.layers[name].kept()).any()]
    patches = [patch for name in changed for patch in _patches(stored, name, kept[name], store, values.get(name))]
    computed = {name: kept[name] for name in changed if (found := store.under(name)) is not None and found.altered}
    check = check or (partial(_check_zeros, computed, options or LoadOptions()) if computed else None)
    _write(model, source, target, patches, check=check)


def _check_zeros(kept: Mapping[str, Bools], options: LoadOptions, path: Path) -> None:
    """A stored zero may be none where the weight is used: some quantizers have no zero."""
    layers = build(open_model(path), path, options)[0].layers
    wrong = [name for name, mask in kept.items() if (layers[name].kept() & ~mask).any()]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong[:5])}: what is stored is changed before it is used, and a zero does not stay zero, "
            "so these weights cannot be pruned. Leave them out with --exclude"
        )


def write_tensors(
    source: Path,
    target: Path,
    new: Mapping[str, Array],
    change: Callable[[ModelProto], None] | None = None,
    check: Check | None = None,
) -> None:
    """`new` by the name of a tensor that the outermost graph stores; `change` is made to the model afterwards."""
    check_target(target, "the output", [source])
    model = open_model(source)
    stored = [(str(key[0]), tensor) for key, tensor, _ in tensors(model) if len(key) == 1 and key[0] in new]
    patches = [Patch(t, partial(new.__getitem__, name)) for name, t in stored if isinstance(t, TensorProto)]
    _write(model, source, target, patches, change, check)


def _write(
    model: ModelProto,
    source: Path,
    target: Path,
    patches: list[Patch],
    change: Callable[[ModelProto], None] | None = None,
    check: Check | None = None,
) -> None:
    for patch in patches:
        if not is_external(patch.tensor):
            _put(patch.tensor, patch.read())
    outside = [patch for patch in patches if is_external(patch.tensor)]
    with ExitStack() as stack:
        # What is entered last is renamed first: the model appears when its data is there.
        names = _free_names(model, source, target)
        stack.enter_context(_without_orphans(target, names.values()))
        temporary = stack.enter_context(replacing(target, check))
        _copy_external(model, source, target, outside, names, stack)
        if change is not None:
            change(model)
        temporary.write_bytes(model.SerializeToString())
        if names:
            target.unlink(missing_ok=True)  # an older model must not stand beside newer data


def _check(kept: Mapping[str, Bools], layers: Mapping[str, Layer]) -> None:
    for name, mask in kept.items():
        if name not in layers:
            raise UsageError(f"The model has no layer {name!r}. Its layers: {', '.join(layers) or 'none'}.")
        if mask.shape != layers[name].shape:
            raise UsageError(f"The mask of {name!r} has the shape {mask.shape}, the layer has {layers[name].shape}.")


def _patches(
    tensors: Mapping[str, TensorProto | SparseTensorProto], name: str, kept: Bools, store: Store, values: Array | None
) -> Iterator[Patch]:
    stored, tensor = store.under(name), tensors.get(name)
    if stored is None or tensor is None:
        raise UsageError(f"{name} is computed from stored tensors, so its masks cannot be written. {INSTEAD}")
    if values is not None and (stored.repack or isinstance(tensor, SparseTensorProto) or stored.dtype.kind not in "fV"):
        raise UsageError(f"{name} is stored in a form that revived weights cannot be written to. {INSTEAD}")
    if isinstance(tensor, SparseTensorProto):
        yield Patch(tensor.values, partial(_zeroed_values, tensor, kept))
    elif stored.repack is not None:
        yield Patch(tensor, partial(stored.repack, kept))
    elif not stored.masked:
        yield Patch(tensor, partial(zeroed, stored, kept, values))
    elif any(known.mask is not None and stored_mask(known) is None for known in stored.altered):
        raise UsageError(f"the mask of {name} is computed or has another shape, so it cannot be written. {INSTEAD}")
    else:
        for each, array in masked_tensors(stored, kept, {one: one for one in tensors}, values).items():
            holder = tensors[each]
            if isinstance(holder, SparseTensorProto):
                raise UsageError(f"{each}, the mask of {name}, is a sparse tensor, so it cannot be written. {INSTEAD}")
            yield Patch(holder, partial(np.asarray, array))


def _zeroed_values(tensor: SparseTensorProto, kept: Bools) -> Array:
    """A sparse tensor keeps its positions; the values there become zeros."""
    values = numpy_helper.to_array(tensor.values).copy()
    indices = numpy_helper.to_array(tensor.indices)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), tuple(tensor.dims))
    values[~kept.reshape(-1)[flat]] = 0
    return values


def _put(tensor: TensorProto, array: Array) -> None:
    """New numbers in the field that held the old ones."""
    fresh = numpy_helper.from_array(array)
    if tensor.HasField("raw_data"):
        tensor.raw_data = fresh.raw_data
        return
    field = next(name for name in TYPED_FIELDS if getattr(tensor, name))
    old = np.asarray(getattr(tensor, field))
    before = numpy_helper.to_array(tensor)
    if len(old) != before.size:
        raise UsageError(f"The tensor {tensor.name!r} is stored in a form that cannot be written.")
    # Typed fields hold numbers or bit patterns; either way a changed element is the pattern of its new value.
    changed = np.asarray(before != array).reshape(-1)
    bits = array.reshape(-1) if array.dtype.kind in "iuf" and array.dtype.itemsize > 2 else _patterns(array)
    new = np.where(changed, bits, old)
    del getattr(tensor, field)[:]
    getattr(tensor, field).extend(new.tolist())


def _patterns(array: Array) -> Array:
    flat = array.reshape(-1)
    if flat.dtype.kind in "iub":
        return flat.astype(np.int64)
    return flat.view(np.uint16 if flat.dtype.itemsize == 2 else np.uint8).astype(np.int64)


@contextmanager
def _without_orphans(target: Path, names: Collection[str]) -> Iterator[None]:
    """Data whose model does not appear goes again."""
    try:
        yield
    except BaseException:
        for name in names if not target.exists() else ():
            (target.parent / name).unlink(missing_ok=True)
        raise


def _copy_external(
    model: ModelProto, source: Path, target: Path, patches: list[Patch], names: Mapping[str, str], stack: ExitStack
) -> None:
    """Copies each data file beside the target, under its new name, and patches the copy; it gets the name when the
    stack is left."""
    offsets = [section(patch.tensor, source, packed_size(patch.tensor)).offset for patch in patches]
    for location, name in names.items():
        copy = target.parent / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        temporary = stack.enter_context(replacing(copy))
        shutil.copyfile(source.parent / location, temporary)
        for patch, offset in zip(patches, offsets, strict=True):
            if _location(patch.tensor) == location:
                _overwrite(temporary, offset, patch.read())
    for tensor in _external(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = names[entry.value]


def _external(model: ModelProto) -> list[TensorProto]:
    found: list[TensorProto] = []
    for _, tensor, _ in tensors(model):
        found += [tensor.values, tensor.indices] if isinstance(tensor, SparseTensorProto) else [tensor]
    return [tensor for tensor in found if is_external(tensor)]


def _location(tensor: TensorProto) -> str:
    return next(str(entry.value) for entry in tensor.external_data if entry.key == "location")


def _free_names(model: ModelProto, source: Path, target: Path) -> dict[str, str]:
    """New names of data files by the old: the same in another folder, unless files are there already; else such as are
    free, or belong to the older model that is being replaced and not to the one that is read."""
    locations = sorted({_location(tensor) for tensor in _external(model)})
    if not any((target.parent / location).exists() for location in locations):
        return {location: location for location in locations}
    read = {(source.parent / location).resolve() for location in locations}
    older = {target.parent / location for location in _locations(target)}
    numbered = (f"{target.name}.data{number or ''}" for number in count())
    free = (n for n in numbered if not (f := target.parent / n).exists() or (f in older and f.resolve() not in read))
    return dict(zip(locations, free, strict=False))


def _locations(file: Path) -> set[str]:
    """Where a model's data is, if it is one."""
    try:
        return {_location(tensor) for tensor in _external(open_model(file))} if file.exists() else set()
    except EffsparseError:
        return set()


def _overwrite(file: Path, offset: int, array: Array) -> None:
    raw = np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
    if raw.size:
        np.memmap(file, np.uint8, "r+", offset=offset, shape=raw.shape)[:] = raw
