"""Files of torch.save become modules, without running anything that is in them: only torch.nn's own classes
are allowed in, and whatever else a file asks for is named in the refusal."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.load.options import LoadOptions

ASKED = re.compile(r"GLOBAL ([\w.]+)")


def read_module(path: Path, options: LoadOptions) -> nn.Module:
    content = _load_whole(path) if options.trust else _load_safely(path)
    if isinstance(content, nn.Module):
        return content
    raise LoadError(f"{path} has no graph in it: it holds {_describe(content)}. {WAYS_WITHOUT_GRAPH}")


WAYS_WITHOUT_GRAPH = (
    "Paths need the model itself: save it whole with torch.save(model, FILE), export it with torch.export.save "
    "(.pt2) or to ONNX, or call effsparse_cli.analyze(model, example_input) where it is built."
)


def _load_safely(path: Path) -> object:
    try:
        with torch.serialization.safe_globals(list(allowed())), torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        asked = _asked_for(path, error)
        if asked:
            raise RefusedError(_refusal(path, asked)) from error
        raise RefusedError(
            f"{path} cannot be read as plain data: it is damaged, or a pickle of a kind that torch only reads by "
            "running it (as before torch 1.6). Save it again with a current torch; if you trust it, --trust runs it."
        ) from error
    except Exception as error:
        raise LoadError(f"{path} cannot be read: {_reason(error)}") from error


def _load_whole(path: Path) -> object:
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        raise LoadError(
            f"{path} cannot be loaded whole: {_reason(error)}. The code of its classes must be importable, for "
            "example by running in the project that saved it."
        ) from error


def allowed() -> Iterator[Any]:
    """torch.nn's module classes, its pruning and weight-norm hooks, and the activations that its
    transformer layers hold as functions."""
    for holder in (nn.modules, prune, parametrize, parametrizations, weight_norm, spectral_norm):
        source = inspect.getmodule(holder)
        names = vars(source if source is not None else holder)
        yield from (v for v in names.values() if inspect.isclass(v) and v.__module__.startswith("torch.nn."))
    yield from (
        nn.modules.linear.NonDynamicallyQuantizableLinear,
        nn.modules.module._WrappedHook,
        nn.Parameter,
        nn.Buffer,
        set,
        slice,
    )
    yield from (nn.functional.relu, nn.functional.gelu, nn.functional.silu, nn.functional.leaky_relu, torch.tanh)


def _asked_for(path: Path, error: Exception) -> list[str]:
    """The globals of a zip file are listed without running it; a legacy file is read up to the first."""
    try:
        with torch.serialization.safe_globals(list(allowed())):
            listed = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:
        listed = []
    return sorted(listed) or ASKED.findall(str(error))[:1]


def _refusal(path: Path, asked: list[str]) -> str:
    return (
        f"{path} asks for code that is not torch.nn's: {', '.join(asked[:8])}{' ...' if len(asked) > 8 else ''}. "
        "Nothing of it was run. If you trust the file, --trust loads it whole, and its code runs; otherwise export the "
        "model where it was made, with torch.export.save (.pt2) or to ONNX, and give that file."
    )


def _describe(content: object) -> str:
    if not isinstance(content, Mapping):
        return f"nothing but a value of type {type(content).__name__}"
    tensors = sum(1 for _ in _tensors(content, depth=4))
    if not tensors:
        return f"a dictionary with {len(content)} entries and no tensors"
    keys = ", ".join(str(key) for key in list(content)[:3])
    return f"{tensors} tensors in a dictionary ({keys}{' ...' if len(content) > 3 else ''})"


def _tensors(content: object, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(content, torch.Tensor):
        yield content
    elif isinstance(content, Mapping) and depth:
        for value in content.values():
            yield from _tensors(value, depth - 1)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
