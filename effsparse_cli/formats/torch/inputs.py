"""Choose the inputs that a model is traced with: of the user's shapes, or of shapes inferred from the model."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.missing_shapes import combinations, missing_shapes_error
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, quiet, unfused_kernels
from effsparse_cli.graph.graph import OpenDimensions
from effsparse_cli.graph.primitives import Shape

TOKENS = 8
"""Number of tokens, for a transformer or a recurrent layer."""
SIZES = (32, 224, 1024, 16384)
TRIALS = 300
"""Most combinations of shapes that are tried to suggest one to the user."""
USUAL_SIZES = (28, 32, 64, 96, 128, 224, 256, 299, 384)
FULL_RANGE = range(1, 129)
LARGE_SIZES = (512, 1024, 4096, 16384, 65536)
"""For one-dimensional convolutions with a long kernel, such as over audio."""
LARGEST_INFERRED = 1 << 26
"""Most elements of an input with an inferred shape."""


def candidate_shapes(model: nn.Module, name: str) -> list[Shape]:
    """Return shapes that the input of this name may have."""
    shapes: list[Shape] = [(1, TOKENS), (1,)] if is_index(name) or "mask" in name else []
    # A table of positions after strided convolutions fixes the length of the input, as in Whisper.
    tables = [layer.num_embeddings for layer in model.modules() if isinstance(layer, nn.Embedding)]
    lengths = [*SIZES, *(times * n for times in (1, 2, 4) for n in tables)]
    for layer in model.modules():
        shapes += _accepted_by(layer, lengths)
    return list(dict.fromkeys([*shapes, (1, TOKENS), (1,), (1, 1)]))


def is_index(name: str) -> bool:
    return name.endswith(("ids", "tokens", "indices"))


def _accepted_by(layer: nn.Module, lengths: Sequence[int]) -> Iterator[Shape]:
    """Yield shapes that a layer accepts."""
    match layer:
        case nn.Linear():
            yield from ((1, layer.in_features), (1, TOKENS, layer.in_features))
        case nn.Embedding():
            yield from ((1, TOKENS), (1,), (1, TOKENS, layer.embedding_dim))
        case nn.RNNBase():
            yield from ((1, TOKENS, layer.input_size), (TOKENS, 1, layer.input_size))
        case nn.MultiheadAttention():
            yield from ((1, TOKENS, layer.embed_dim), (TOKENS, 1, layer.embed_dim))
        case nn.Bilinear():
            yield from ((1, layer.in1_features), (1, layer.in2_features))
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            rank = len(layer.kernel_size)
            yield from ((1, layer.in_channels, *(n,) * rank) for n in lengths if n**rank <= 1 << 20)


@dataclass(frozen=True)
class Inputs:
    """Arguments for a call of the model, and notes about what was assumed. The first input is passed by position."""

    args: tuple[torch.Tensor, ...]
    kwargs: dict[str, torch.Tensor]
    notes: tuple[str, ...] = ()
    open: OpenDimensions | None = None


def example_inputs(model: nn.Module, options: LoadOptions) -> Inputs:
    names = _names(model)
    if not options.input_shapes:
        return _inferred(model, names)
    first = next(iter(names), "")
    shapes = {name or first: shape for name, shape in options.input_shapes.items()}
    unknown = [name for name in shapes if name and name not in names]
    if unknown:
        raise UsageError(f"the model has no input {', '.join(unknown)}; its inputs are: {', '.join(names)}")
    if any(needed and name not in shapes for name, needed in names.items()):
        raise _missing(model, names, shapes)
    return Inputs(*_tensors(model, names, shapes))


def _names(model: nn.Module) -> dict[str, bool]:
    """Return the arguments of forward, and whether each is required."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(model.forward).parameters.values()
    return {p.name: p.default is inspect.Parameter.empty for p in parameters if p.kind in kinds}


def _missing(model: nn.Module, names: Mapping[str, bool], given: Mapping[str, Shape]) -> UsageError:
    """Return an error that names the missing shapes, with an example that works if one is found."""
    needed = [name for name, is_needed in names.items() if is_needed or name in given]
    missing = [name for name in needed if name not in given]
    candidates = {name: [given[name]] if name in given else candidate_shapes(model, name) for name in needed}
    tried = list(combinations(candidates, TRIALS))
    running = _run(model, (_tensors(model, names, shapes) for shapes in tried))
    found = next((shapes for shapes, runs in zip(tried, running, strict=True) if runs), None)
    dtypes = {name: _tensor(model, name, (1,), name == next(iter(names))).dtype for name in needed}
    described = [f"{name or 'input'} {str(dtype).removeprefix('torch.')}" for name, dtype in dtypes.items()]
    problem = f"the model needs the shapes of {', '.join(missing)}." if missing != [""] else "the model needs a shape."
    return missing_shapes_error(UsageError, problem, described, found)


Called = tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]


def _tensors(model: nn.Module, names: Mapping[str, bool], shapes: Mapping[str, Shape]) -> Called:
    """Return the first input by position and the others by name."""
    first = next(iter(names), "")
    tensors = {name: _tensor(model, name, shape, name == first) for name, shape in shapes.items()}
    leading = (tensors.pop(first),) if first in tensors else ()
    return leading, tensors


def _tensor(model: nn.Module, name: str, shape: Shape, first: bool) -> torch.Tensor:
    """Return an input: zeros for indices, which every table has, ones for masks, otherwise noise from a fixed seed."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    device = parameter.device if parameter is not None else torch.device("cpu")
    if "mask" in name:
        return torch.ones(shape, dtype=torch.int64, device=device)
    looked_up = first and isinstance(_first_layer(model), nn.Embedding | nn.EmbeddingBag)
    if looked_up or is_index(name):
        return torch.zeros(shape, dtype=torch.int64, device=device)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return noise.to(device=device, dtype=parameter.dtype if parameter is not None else torch.float32)


def _first_layer(model: nn.Module) -> nn.Module | None:
    """Return the first module with parameters, in the order of registration, which is nearly always that of use."""
    for module in model.modules():
        if any(True for _ in module.parameters(recurse=False)) or hasattr(module, "parametrizations"):
            return module
    return None


def _inferred(model: nn.Module, names: dict[str, bool]) -> Inputs:
    needed = [name for name, is_needed in names.items() if is_needed] or list(names)[:1] or [""]
    if len(needed) > 1:
        raise _missing(model, names, {})
    for shape, why, axes in _candidates(model):
        if math.prod(shape) > LARGEST_INFERRED:
            continue
        tensor = _tensor(model, needed[0], shape, first=True)
        if all(_run(model, [((tensor,), {})])):
            text = "x".join(map(str, shape))
            opened = open_axes({needed[0]: shape}, {needed[0]: axes})
            return Inputs((tensor,), {}, (f"input shape {text} inferred from {why}",), opened)
    raise _missing(model, {needed[0]: True}, {})


def open_axes(shapes: Mapping[str, Shape], axes: Mapping[str, Sequence[int]]) -> OpenDimensions | None:
    """Return the open dimensions of inputs of these shapes, whose `axes` could as well be longer."""

    def grown(factor: int) -> dict[str, Shape]:
        return {
            name: tuple(n * factor if axis in axes.get(name, ()) else n for axis, n in enumerate(shape))
            for name, shape in shapes.items()
        }

    sizes = {f"{name or 'input'}[{axis}]": shapes[name][axis] for name, some in axes.items() for axis in some}
    return OpenDimensions(sizes, grown) if sizes else None


def _candidates(model: nn.Module) -> Iterator[tuple[Shape, str, Sequence[int]]]:
    """Yield shapes to try, what they are inferred from, and the axes that the model leaves open."""
    layer = _first_layer(model)
    match layer:
        case nn.Linear():
            yield (1, layer.in_features), "the first layer", ()
        case nn.Embedding() | nn.EmbeddingBag():
            yield (1, TOKENS), f"the first layer, an embedding: {TOKENS} tokens", (1,)
        case nn.RNNBase():
            steps = (1, TOKENS) if layer.batch_first else (TOKENS, 1)
            yield (*steps, layer.input_size), f"the first layer, recurrent: {TOKENS} steps", (steps.index(TOKENS),)
        case nn.MultiheadAttention():
            steps = (1, TOKENS) if layer.batch_first else (TOKENS, 1)
            yield (*steps, layer.embed_dim), f"the first layer, attention: {TOKENS} tokens", (steps.index(TOKENS),)
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            rank = len(layer.kernel_size)
            for size, why, is_open in _image_sizes(model, layer.in_channels, rank):
                yield (1, layer.in_channels, *(size,) * rank), why, range(2, 2 + rank) if is_open else ()


def _image_sizes(model: nn.Module, channels: int, rank: int) -> Iterator[tuple[int, str, bool]]:
    """Yield sizes with what they are inferred from, and whether the size is open: the only usual size that runs,
    although sizes close to it may run too; a usual size if several run; or the only size that runs at all."""
    usual = _running(model, channels, rank, USUAL_SIZES)
    if len(usual) == 1:
        yield usual[0], "the only common size that the model accepts", False
    elif usual:
        yield (32 if 32 in usual else usual[0]), "the first layer, a convolution: the model accepts many sizes", True
    else:
        every = _running(model, channels, rank, FULL_RANGE)
        if len(every) == 1:
            yield every[0], "the only size that the model accepts", False
        large = _running(model, channels, rank, LARGE_SIZES) if rank == 1 and not every else []
        if large:
            yield large[0], "the first layer, a convolution: the model accepts many sizes", True


def _running(model: nn.Module, channels: int, rank: int, sizes: Sequence[int]) -> list[int]:
    parameter = next(model.parameters())
    shapes = [(1, channels, *(size,) * rank) for size in sizes]
    trials = (torch.zeros(shape, device=parameter.device, dtype=parameter.dtype) for shape in shapes)
    return [size for size, runs in zip(sizes, _run(model, (((t,), {}) for t in trials)), strict=True) if runs]


def _run(model: nn.Module, trials: Iterable[Called]) -> Iterator[bool]:
    """Yield whether the model runs on each of these inputs, tried on fake tensors, which costs little."""
    with preserved_state(model), unfused_kernels(), quiet(), FakeTensorMode(allow_non_fake_inputs=True):
        for args, kwargs in trials:
            try:
                model(*args, **kwargs)
            except Exception:
                yield False
            else:
                yield True
