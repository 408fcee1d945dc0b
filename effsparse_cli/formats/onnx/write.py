"""Write changes into an ONNX file: the file as it was, with pruned weights at zero (quantized ones at their zero point)
and new tensors in place of old ones. External data stays external, next to the new file."""

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
from effsparse_cli.formats.onnx.external import external_tensors, location, section
from effsparse_cli.formats.onnx.metadata import replace_metadata
from effsparse_cli.formats.onnx.outline import is_outlined, write_whole
from effsparse_cli.formats.onnx.parse import open_model
from effsparse_cli.formats.onnx.save import add_bias
from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.onnx.tensors.read import packed_size
from effsparse_cli.formats.onnx.tensors.store import Store, masked_tensors, stored_mask, zeroed
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.formats.output import Changes, ModelOutput
from effsparse_cli.formats.writing.atomic import Check, check_target, replacing
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools

INSTEAD = "Use --masks-only"
TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass(frozen=True)
class Patch:
    """A stored tensor, and the function that reads its new values."""

    tensor: TensorProto
    read: Callable[[], Array]


def write_changes(
    *,
    model: ModelProto,
    source: Path,
    output: ModelOutput,
    changes: Changes,
    layers: Mapping[str, Layer],
    store: Store | None,
    check: Check | None,
) -> None:
    """Write a copy of the parsed (outlined) model with the changes. `store` reads the tensors of its `layers`."""
    if not output.in_place:
        check_target(output.path, "the output", [source])
    copy = ModelProto()
    copy.CopyFrom(model)
    if changes.metadata:
        replace_metadata(copy, changes.metadata)
    patches = list(_tensor_patches(copy, changes.tensors))
    if store is not None:
        patches += _layer_patches(copy, changes, layers, store)
    _write(copy, source, output.path, patches, changes, check)


def _tensor_patches(model: ModelProto, new: Mapping[str, Array]) -> Iterator[Patch]:
    """Yield patches by the name of a tensor that the outermost graph stores."""
    for key, tensor, _ in tensors(model) if new else ():
        if len(key) == 1 and key[0] in new and isinstance(tensor, TensorProto):
            yield Patch(tensor, partial(new.__getitem__, str(key[0])))


def _layer_patches(model: ModelProto, changes: Changes, layers: Mapping[str, Layer], store: Store) -> Iterator[Patch]:
    """Yield patches of weights and of the masks that the file multiplies them with."""
    kept, values = changes.kept, changes.weights
    _check(kept, layers)
    names = layer_names(model)
    stored = {names[key]: tensor for key, tensor, _ in tensors(model)}
    for name, mask in kept.items():
        if name in values or (mask != layers[name].kept()).any():
            yield from _patches(stored, name, mask, store, values.get(name))


def _write(
    model: ModelProto, source: Path, target: Path, patches: list[Patch], changes: Changes, check: Check | None
) -> None:
    outlined = {id(tensor): tensor for tensor in model.graph.initializer if is_outlined(tensor, source)}
    external = [tensor for tensor in external_tensors(model) if id(tensor) not in outlined]
    outside = {id(tensor) for tensor in external}
    new = {p.tensor.name: partial(_data, p.tensor, p.read) for p in patches if id(p.tensor) in outlined}
    for patch in patches:
        if id(patch.tensor) not in outlined and id(patch.tensor) not in outside:
            _put(patch.tensor, patch.read())
    with ExitStack() as stack:
        # What is entered last is renamed first: the model appears when its data is there.
        names = _free_names(external, source, target)
        stack.enter_context(_without_orphans(target, names.values()))
        temporary = stack.enter_context(replacing(target, check))
        moved = [patch for patch in patches if id(patch.tensor) in outside]
        _copy_external(external, source, target, moved, names, stack)
        for bias in changes.biases:
            add_bias(model, bias)
        with temporary.open("wb") as file:
            write_whole(model, source, new, file)
        if names:
            target.unlink(missing_ok=True)  # never leave an old model with new data


def _data(tensor: TensorProto, read: Callable[[], Array]) -> memoryview:
    array = read()
    if array.dtype.kind in "fiub" and array.dtype.isbuiltin == 1 and array.nbytes == packed_size(tensor):
        return np.ascontiguousarray(array).data.cast("B")
    return memoryview(numpy_helper.from_array(array).raw_data)


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
        raise UsageError(f"{name} is computed from stored tensors, so its mask cannot be written. {INSTEAD}")
    if values is not None and (stored.repack or isinstance(tensor, SparseTensorProto) or stored.dtype.kind not in "fV"):
        raise UsageError(f"{name} is stored in a format that revived weights cannot be written to. {INSTEAD}")
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
    """Return the values of a sparse tensor, zero where pruned; its positions stay."""
    values = numpy_helper.to_array(tensor.values).copy()
    indices = numpy_helper.to_array(tensor.indices)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), tuple(tensor.dims))
    values[~kept.reshape(-1)[flat]] = 0
    return values


def _put(tensor: TensorProto, array: Array) -> None:
    """Store new values in the field that held the old ones."""
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
    """Remove new data files if their model is not written."""
    try:
        yield
    except BaseException:
        for name in names if not target.exists() else ():
            (target.parent / name).unlink(missing_ok=True)
        raise


def _copy_external(
    external: list[TensorProto],
    source: Path,
    target: Path,
    patches: list[Patch],
    names: Mapping[str, str],
    stack: ExitStack,
) -> None:
    """Copy each data file to its new name next to the target and patch the copy; it is renamed with the stack."""
    offsets = [section(patch.tensor, source, packed_size(patch.tensor)).offset for patch in patches]
    for old, name in names.items():
        copy = target.parent / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        temporary = stack.enter_context(replacing(copy))
        shutil.copyfile(source.parent / old, temporary)
        for patch, offset in zip(patches, offsets, strict=True):
            if location(patch.tensor) == old:
                _overwrite(temporary, offset, patch.read())
    for tensor in external:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = names[entry.value]


def _free_names(external: list[TensorProto], source: Path, target: Path) -> dict[str, str]:
    """Return new names of data files by old name.

    They keep their names in another folder, unless such files exist there. Otherwise they get names that are free, or
    that belong to the older model being replaced and not to the one that is read.
    """
    locations = sorted({location(tensor) for tensor in external})
    if not any((target.parent / name).exists() for name in locations):
        return {name: name for name in locations}
    read = {(source.parent / name).resolve() for name in locations}
    older = {target.parent / name for name in _locations(target)}
    numbered = (f"{target.name}.data{number or ''}" for number in count())
    free = (n for n in numbered if not (f := target.parent / n).exists() or (f in older and f.resolve() not in read))
    return dict(zip(locations, free, strict=False))


def _locations(file: Path) -> set[str]:
    """Return the external data files of a model; none if it is not a model."""
    try:
        return {location(tensor) for tensor in external_tensors(open_model(file))} if file.exists() else set()
    except EffsparseError:
        return set()


def _overwrite(file: Path, offset: int, array: Array) -> None:
    raw = np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
    if raw.size:
        np.memmap(file, np.uint8, "r+", offset=offset, shape=raw.shape)[:] = raw
