"""Suggests input shapes for an error message, from the operators that use each input. The caller tries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from effsparse_cli.formats.onnx.shapes.inputs import Dim, declared_shape
from effsparse_cli.graph.primitives import Shape

SIZES, UNUSUAL = (224, 32, 64, 28, 1024, 16384), range(1, 129)
OTHERS = (8, 1, 2, 16, 64, 128, 256, 512, 576, 1024, 16384)


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
