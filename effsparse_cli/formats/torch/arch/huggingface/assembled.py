"""Parameters that a file stores in another form: the module gets the tensors of the file, and computes the parameter
from them when it is used. A trace then shows how, so that every element keeps its position in the file."""

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
COMPUTED = "_computed_parameters"


@dataclass(frozen=True)
class ComputedParameter:
    """Computes a parameter from the tensors that `holder` has under `names`."""

    make: Callable[..., Any]
    holder: nn.Module
    names: tuple[str, ...]

    def __call__(self) -> Any:
        return self.make(*(self.holder._parameters[name] for name in self.names))


def assemble(model: nn.Module, members: Mapping[str, torch.Size], convert: Convert) -> None:
    """Replace parameters by the tensors `members` of the file and by what `convert` makes of them. Raise ValueError if
    the result does not have the shape of the parameter."""
    blank = [torch.empty(shape, device="meta") for shape in members.values()]
    recorded = {name: _record(convert, blank, name) for name in convert(blank)}
    for name, (_, shape) in recorded.items():
        wanted = model.get_parameter(name).shape
        if shape != wanted:
            raise ValueError(
                f"{name} has shape {_format_shape(wanted)} in the model, but the file gives {_format_shape(shape)}"
            )
    names = tuple(_hold(model, name, tensor) for name, tensor in zip(members, blank, strict=True))
    for name, (make, _) in recorded.items():
        path, _, own = name.rpartition(".")
        _add_property(model.get_submodule(path), own, ComputedParameter(make, model.get_submodule(HOLDER), names))


def _record(convert: Convert, blank: list[torch.Tensor], name: str) -> tuple[fx.GraphModule, torch.Size]:
    """Record a conversion as operators: the functions of the library are not differentiable."""
    made: fx.GraphModule = make_fx(lambda *tensors: convert(tensors)[name])(*blank)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made, made(*blank).shape


def _hold(model: nn.Module, name: str, tensor: torch.Tensor) -> str:
    if HOLDER not in model._modules:
        model.add_module(HOLDER, nn.Module())
    holder = model.get_submodule(HOLDER)
    own = str(len(holder._parameters))
    holder.register_parameter(own, nn.Parameter(tensor))
    model.__dict__.setdefault(FILE_NAMES, {})[f"{HOLDER}.{own}"] = name
    return own


def _add_property(module: nn.Module, name: str, parameter: ComputedParameter) -> None:
    """Replace a parameter by a property, in a class of the same name, as torch's parametrizations do."""
    del module._parameters[name]
    module.__dict__[COMPUTED] = {**module.__dict__.get(COMPUTED, {}), name: parameter}
    original = type(module)
    computed = property(lambda self: self.__dict__[COMPUTED][name]())
    body = {name: computed, "__module__": original.__module__, "__qualname__": original.__qualname__}
    module.__class__ = type(original.__name__, (original,), body)


def _format_shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"
