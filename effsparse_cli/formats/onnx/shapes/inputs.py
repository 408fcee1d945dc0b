"""Shapes of the model's inputs: what the file declares and the user gives in, concrete shapes out, with a note for
every assumed size. For errors, likely shapes by the operators that use each input; the caller tries them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, TypeProto, ValueInfoProto, helper

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import OpenDimensions
from effsparse_cli.graph.primitives import Shape

Dim = int | str | None

SIZES, UNUSUAL = (224, 32, 64, 28, 1024, 16384), range(1, 129)
OTHERS = (8, 1, 2, 16, 64, 128, 256, 512, 576, 1024, 16384)


@dataclass(frozen=True)
class Sizes:
    """Assumed sizes for open dimensions: of images, and of everything else except batches."""

    image: int
    other: int


@dataclass(frozen=True)
class InputShapes:
    shapes: Mapping[str, Shape]
    dims: Mapping[str, int]
    notes: tuple[str, ...]


def bind(inputs: Sequence[ValueInfoProto], options: LoadOptions, sizes: Sizes) -> InputShapes:
    declared = {value.name: declared_shape(value.type) for value in inputs}
    given = _given(declared, options)
    dims = dict(options.dims)
    _check_dims(declared, dims)
    for name, shape in given.items():
        for dim, n in zip(declared[name] or (), shape, strict=False):
            if isinstance(dim, str):
                dims.setdefault(dim, n)
    shapes: dict[str, Shape] = {}
    notes = []
    for name, axes in declared.items():
        if name in given:
            shapes[name] = given[name]
            continue
        if axes is None:
            raise UsageError(
                f"The file declares no shape for input {name!r}. Give it, for example --input-shape {name}=1,3,224,224"
            )
        shapes[name] = tuple(_size(axis, dim, axes, dims, sizes) for axis, dim in enumerate(axes))
        if any(not isinstance(dim, int) and dim not in options.dims for dim in axes):
            assumed = dims_text(shapes[name])
            notes.append(
                f"input {name!r} is assumed to have shape {assumed}: the file leaves sizes open ({dims_text(axes)})"
            )
    return InputShapes(shapes, dims, tuple(notes))


def open_sizes(inputs: Sequence[ValueInfoProto], options: LoadOptions, sizes: Sizes) -> OpenDimensions | None:
    """Return the dimensions that neither the file nor the user fixes, except batches and channels."""

    def shapes(factor: int) -> Mapping[str, Shape]:
        return bind(inputs, options, Sizes(sizes.image * factor, sizes.other * factor)).shapes

    once, twice = shapes(1), shapes(2)
    found = {
        _dim_name(value, axis): once[value.name][axis]
        for value in inputs
        for axis, (n, m) in enumerate(zip(once[value.name], twice[value.name], strict=True))
        if n != m
    }
    return OpenDimensions(found, shapes) if found else None


def _dim_name(value: ValueInfoProto, axis: int) -> str:
    dim = (declared_shape(value.type) or ())[axis]
    return f'"{dim}"' if isinstance(dim, str) else f"{axis} of {value.name}"


def declared_shape(kind: TypeProto) -> tuple[Dim, ...] | None:
    """Return the size or name of each axis, None for an axis without either; None if the rank is unknown. For optionals
    and sequences, those of their elements."""
    outer = kind
    while not kind.HasField("tensor_type") and not kind.HasField("sparse_tensor_type"):
        if kind.HasField("optional_type"):
            kind = kind.optional_type.elem_type
        elif kind.HasField("sequence_type"):
            kind = kind.sequence_type.elem_type
        else:
            return ()
    inside = kind is not outer
    tensor = kind.tensor_type if kind.HasField("tensor_type") else kind.sparse_tensor_type
    if not tensor.HasField("shape"):
        return () if inside else None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in tensor.shape.dim
    )


def _given(declared: Mapping[str, tuple[Dim, ...] | None], options: LoadOptions) -> dict[str, Shape]:
    given = {}
    for name, shape in options.input_shapes.items():
        name = name or next(iter(declared), "")
        if name not in declared:
            raise UsageError(f"the model has no input {name!r}; its inputs are: {', '.join(declared) or 'none'}.")
        axes = declared[name]
        if axes is not None:
            fits = len(axes) == len(shape)
            if not fits or any(isinstance(d, int) and d != n for d, n in zip(axes, shape, strict=True)):
                raise UsageError(
                    f"Input {name!r} cannot have the shape {dims_text(shape)}: the file declares {dims_text(axes)}."
                )
        given[name] = tuple(shape)
    return given


def _check_dims(declared: Mapping[str, tuple[Dim, ...] | None], dims: Mapping[str, int]) -> None:
    symbols = {dim for axes in declared.values() for dim in axes or () if isinstance(dim, str)}
    parts = {word for symbol in symbols for word in re.findall(r"[A-Za-z_]\w*", symbol)}
    for name in dims:
        if name not in symbols | parts:
            raise UsageError(
                f"The model has no dimension {name!r}. Its dimensions: {', '.join(sorted(symbols)) or 'none'}."
            )


def _size(axis: int, dim: Dim, axes: tuple[Dim, ...], dims: dict[str, int], sizes: Sizes) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        return _assumed(axis, "", axes, sizes)
    if dim not in dims:
        words = re.findall(r"[A-Za-z_]\w*", dim)
        if words != [dim] and re.fullmatch(r"[\w\s+*-]+", dim) and not any("__" in w for w in words):
            for word in words:
                dims.setdefault(word, _assumed(axis, word, axes, sizes))
            dims[dim] = _calculate(dim, dims)
        elif "total" in dim and "seq" in dim:
            dims[dim] = 2 * sizes.other  # past and present
        else:
            dims[dim] = _assumed(axis, dim, axes, sizes)
    return dims[dim]


def _calculate(text: str, dims: Mapping[str, int]) -> int:
    """Evaluate sums and products of names and numbers as exporters write them: "past + 1", "2*seq"."""
    total = 0
    for sign, term in re.findall(r"([+-]?)\s*([^+-]+)", text):
        product = 1
        for factor in term.split("*"):
            factor = factor.strip()
            product *= int(factor) if factor.isdigit() else dims.get(factor, 1)
        total += -product if sign == "-" else product
    return max(total, 1)


def _assumed(axis: int, name: str, axes: tuple[Dim, ...], sizes: Sizes) -> int:
    low = name.lower()
    sequence = any(word in low for word in ("seq", "len", "time", "frame", "token"))
    # A recurrent state is [layers, batch, width].
    state = len(axes) == 3 and axis == 1 and isinstance(axes[0], int) and isinstance(axes[2], int) and not name
    if "batch" in low or state or (axis == 0 and not sequence and len(axes) > 1):
        return 1
    if "height" in low or "width" in low or low in ("h", "w"):
        return sizes.image
    if "channel" in low:
        return 3
    if len(axes) == 4 and not sequence:
        channels_last = axes[3] in (1, 3, 4)
        if not channels_last and axis == 1:
            return 3
        if channels_last or axes[1] in (1, 3, 4) or axes[1] is None or isinstance(axes[1], str):
            return sizes.image
    return sizes.other


def dims_text(shape: Sequence[Dim]) -> str:
    return "x".join("?" if dim is None else str(dim) for dim in shape) or "a scalar"


def describe(value: ValueInfoProto) -> str:
    """Describe an input: its name, its known sizes, its type."""
    axes, kind = declared_shape(value.type), value.type.tensor_type.elem_type
    known = "..." if axes is None else ", ".join("?" if dim is None else str(dim) for dim in axes)
    return f"{value.name} [{known}]{f' {helper.tensor_dtype_to_np_dtype(kind)}' if kind else ''}"


def likely_shapes(graph: GraphProto, inputs: Sequence[ValueInfoProto]) -> dict[str, list[Shape]]:
    """Return likely shapes for each input whose shape is not fixed."""
    stored = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    widths = dict.fromkeys(n for dims in stored.values() if len(dims) > 1 for n in dims if n > 1)
    # A position table after strided convolutions fixes the input length, as in Whisper.
    lengths = dict.fromkeys(times * n for times in (1, 2, 4) for n in widths)
    found: dict[str, list[Shape]] = {}
    for value in inputs:
        axes = declared_shape(value.type)
        if axes is not None and all(isinstance(dim, int) for dim in axes):
            continue
        read = [shape for node in graph.node for shape in _before(node, value.name, stored, lengths)]
        some = [*read, *_filled(axes, [*OTHERS[:1], *widths, *OTHERS[1:]])]
        found[value.name] = list(dict.fromkeys(shape for shape in some if _fits(axes, shape)))
    return found


def _before(node: NodeProto, name: str, stored: Mapping[str, Shape], lengths: Iterable[int]) -> Iterator[Shape]:
    """Yield the shapes that a node accepts if it applies a stored weight to the input."""
    places = [i for i, given in enumerate(node.input) if given == name]
    weight = next((stored[given] for given in node.input if given in stored), ())
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    match node.op_type, places, len(weight):
        case "Conv" | "ConvTranspose", [0, *_], rank if rank > 2:
            channels = weight[0] if node.op_type == "ConvTranspose" else weight[1] * numbers.get("group", 1)
            sizes = (*SIZES, *lengths, *UNUSUAL) if rank == 3 else (*SIZES, *UNUSUAL)
            yield from ((1, channels, *(size,) * (rank - 2)) for size in sizes)
        case "Gemm", [0, *_], 2:
            yield (1, weight[1] if numbers.get("transB") else weight[0])
        case "MatMul", [0, *_], 2:
            yield from ((1, weight[0]), (1, OTHERS[0], weight[0]), (weight[0],))
        case "Gather", [1, *_], _:
            yield from ((1, OTHERS[0]), (OTHERS[0],))
        case "LSTM" | "GRU" | "RNN", [0, *_], 3:
            yield (OTHERS[0], 1, weight[2])
        case _:
            return


def _filled(axes: Sequence[Dim] | None, sizes: Sequence[int]) -> Iterator[Shape]:
    """Yield shapes in which all open dimensions are equal, except a batch of 1."""
    if axes is None:
        yield from ((1, *(size,) * rank) for rank in (1, 2, 3) for size in sizes[:4])
        return
    batch = len(axes) > 1
    for size in sizes:
        yield tuple(dim if isinstance(dim, int) else 1 if batch and k == 0 else size for k, dim in enumerate(axes))


def _fits(axes: Sequence[Dim] | None, shape: Shape) -> bool:
    if axes is None:
        return True
    fixed = all(n == dim or not isinstance(dim, int) for n, dim in zip(shape, axes, strict=False))
    return len(axes) == len(shape) and fixed and bool(shape)
