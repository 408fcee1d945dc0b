"""What the public functions accept as a model: a live module, the path of a file, or a file opened by `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeGuard

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.model_file import ModelFile, open_model_file
from effsparse_cli.formats.options import LoadOptions

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.graph.graph import Graph

    Model: TypeAlias = "nn.Module | str | os.PathLike[str] | ModelFile | FileToOpen"
else:
    Model = Any

Names = Sequence[str] | str
"""Several names or patterns, or one."""


class LoadKeywords(TypedDict, total=False):
    """How to read a model; the options of the command line under the same names.

    `input_shape` is the shape of the first input, or a mapping from input names to shapes. `dim` gives sizes of open
    dimensions by name. `outputs` selects outputs by name or position. `arch` is the architecture of a state_dict: a
    built-in model, "hf", or "package.module:factory", called with `arch_arg`. `key` is the location of the weights in a
    checkpoint. `masks` is a mask file. `trust` allows a file to run code while it is loaded.
    """

    input_shape: Sequence[int] | Mapping[str, Sequence[int]]
    dim: Mapping[str, int]
    outputs: Names
    arch: str
    arch_arg: Mapping[str, Any]
    key: str
    masks: str | os.PathLike[str] | None
    zeros_are_pruned: bool
    zero_tol: float
    trust: bool
    norms_dont_cut: bool


@dataclass(frozen=True)
class FileToOpen:
    """A file with its options, not yet opened: arguments are checked first."""

    path: Path
    options: LoadOptions


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A module in memory, with an example of its input (None: inferred, or of the options' shapes)."""

    module: nn.Module
    example_input: Any
    options: LoadOptions

    @property
    def name(self) -> str:
        return type(self.module).__name__

    def graph(self) -> Graph:
        from effsparse_cli.formats.torch import from_module
        from effsparse_cli.training.recent import build_graph

        if self.example_input is None:
            return from_module(self.module, (), None, self.options)
        return build_graph(self.module, self.example_input, self.options)

    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the example input as positional and keyword arguments."""
        from effsparse_cli.training.recent import split_arguments

        return split_arguments(self.example_input) if self.example_input is not None else ((), {})


def open_model(
    model: Model, example_input: Any = None, load: LoadKeywords | None = None, *, to_change: bool = False
) -> LiveModel | ModelFile:
    """Return the model that a user passed. A file is opened, but nothing is read from it yet. With `to_change`, its
    tensors get memory of their own, in which the model can be changed and run."""
    load = load or {}
    if isinstance(model, FileToOpen):
        return open_model_file(model.path, model.options, to_change=to_change)
    if isinstance(model, str | os.PathLike):
        options = build_options(load)
        shapes = options.input_shapes or _shapes_of(example_input)
        return open_model_file(Path(model), replace(options, input_shapes=shapes), to_change=to_change)
    if _is_model_file(model):
        if load:
            raise UsageError(f"{', '.join(load)}: pass these to load(), which has opened {model.path} already")
        return open_model_file(model.path, model.options, to_change=True) if to_change else model
    if isinstance(model, Mapping):
        raise UsageError(
            "a state_dict has tensors but no graph: pass the module that it belongs to, after load_state_dict(), or "
            "the path of the saved file with arch="
        )
    module: Any = getattr(model, "_orig_mod", model)
    if not hasattr(module, "named_parameters"):
        raise UsageError(f"{type(model).__name__} object is not a model: pass a torch.nn.Module or the path of a file")
    return LiveModel(module, example_input, build_options(load))


def build_options(load: LoadKeywords) -> LoadOptions:
    unknown = [name for name in load if name not in LoadKeywords.__annotations__]
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    shape = load.get("input_shape", ())
    shapes = shape if isinstance(shape, Mapping) else {"": shape} if shape else {}
    masks = load.get("masks")
    return LoadOptions(
        input_shapes={name: tuple(sizes) for name, sizes in shapes.items()},
        dims=dict(load.get("dim", {})),
        outputs=as_names(load.get("outputs", ())),
        trust=load.get("trust", False),
        norms_cut=not load.get("norms_dont_cut", False),
        arch=load.get("arch", ""),
        arch_args={name: str(value) for name, value in load.get("arch_arg", {}).items()},
        key=load.get("key", ""),
        masks=None if masks is None else Path(masks),
        zeros_are_pruned=load.get("zeros_are_pruned", False),
        zero_tol=load.get("zero_tol", 0.0),
    )


def as_names(names: Names) -> tuple[str, ...]:
    """Return names as a tuple; one string is one name."""
    return (names,) if isinstance(names, str) else tuple(names)


def name_of(source: LiveModel | ModelFile) -> str:
    return source.name if isinstance(source, LiveModel) else str(source.path)


def _is_model_file(model: Any) -> TypeGuard[ModelFile]:
    return hasattr(model, "has_open_dimensions") and hasattr(model, "path")


def _shapes_of(example_input: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an example input that was passed with a file."""
    if example_input is None:
        return {}
    if isinstance(example_input, Mapping):
        return {name: tuple(value.shape) for name, value in example_input.items()}
    first, *others = example_input if isinstance(example_input, tuple) else (example_input,)
    if others:
        raise UsageError("a file with several inputs needs their names: pass a dict, or input_shape={name: shape}")
    return {"": tuple(first.shape)}
