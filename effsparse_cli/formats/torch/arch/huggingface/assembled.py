"""Parameters that a file stores in another form: the module gets the file's tensors, and computes the parameter from
them when it is used. A trace then shows how, so that every element keeps its place in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from effsparse_cli.formats.torch.tracing.trace import FILE_NAMES

Convert = Callable[[Sequence[torch.Tensor]], Mapping[str, torch.Tensor]]
HOLDER = "tensors_of_the_file"
RECIPES = "_recipes"


@dataclass(frozen=True)
class Recipe:
    """`make` computes a parameter from the tensors that `holder` has at `places`."""

    make: Callable[..., Any]
    holder: nn.Module
    places: tuple[str, ...]

    def __call__(self) -> Any:
        return self.make(*(self.holder._parameters[place] for place in self.places))


def assemble(model: nn.Module, members: Mapping[str, torch.Size], convert: Convert) -> None:
    """Replace parameters by the file's tensors `members` and by what `convert` makes of those. Raises ValueError where
    that does not have the parameter's shape."""
    blank = [torch.empty(shape, device="meta") for shape in members.values()]
    recorded = {name: _record(convert, blank, name) for name in convert(blank)}
    for name, (_, shape) in recorded.items():
        wanted = model.get_parameter(name).shape
        if shape != wanted:
            raise ValueError(f"{name}: the model has {_dims(wanted)}, the file's tensors make {_dims(shape)}")
    places = tuple(_hold(model, name, tensor) for name, tensor in zip(members, blank, strict=True))
    for name, (make, _) in recorded.items():
        path, _, own = name.rpartition(".")
        _compute(model.get_submodule(path), own, Recipe(make, model.get_submodule(HOLDER), places))


def _record(convert: Convert, blank: list[torch.Tensor], name: str) -> tuple[fx.GraphModule, torch.Size]:
    """As plain operators: the library's own conversions are not differentiable."""
    made: fx.GraphModule = make_fx(lambda *tensors: convert(tensors)[name])(*blank)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made, made(*blank).shape


def _hold(model: nn.Module, name: str, tensor: torch.Tensor) -> str:
    if HOLDER not in model._modules:
        model.add_module(HOLDER, nn.Module())
    holder = model.get_submodule(HOLDER)
    place = str(len(holder._parameters))
    holder.register_parameter(place, nn.Parameter(tensor))
    model.__dict__.setdefault(FILE_NAMES, {})[f"{HOLDER}.{place}"] = name
    return place


def _compute(module: nn.Module, name: str, recipe: Recipe) -> None:
    """As torch's parametrizations do: a class of the same name with a property in the parameter's place."""
    del module._parameters[name]
    module.__dict__[RECIPES] = {**module.__dict__.get(RECIPES, {}), name: recipe}
    plain = type(module)
    computed = property(lambda self: self.__dict__[RECIPES][name]())
    body = {name: computed, "__module__": plain.__module__, "__qualname__": plain.__qualname__}
    module.__class__ = type(plain.__name__, (plain,), body)


def _dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a number"
