"""Restore a pickled module that consists only of torch.nn's own classes. Only their __setstate__ is called, and only
after the state was found to be plausible for the file."""

from __future__ import annotations

import inspect
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.modules import MAX_VISITS, check_extent
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import (
    BY_NAME,
    MAKERS,
    MAX_AXES,
    PARAMETERS,
    TensorReader,
    is_tensor,
)

SMALL = 4096
"""A size that any file may state."""
SCALARS = (type(None), bool, int, float, str, bytes)


class ForeignClassError(LoadError):
    """A module contains an object of a class that is not torch.nn's; the message is its name."""


def restore(value: Inert, tensors: TensorReader) -> Any:
    """Return the module; raise ForeignClassError if it contains other classes than torch.nn's."""
    check_extent(tensors.path, value)
    restorer = _Restorer(tensors)
    module = restorer.make(value)
    checked: set[int] = set()
    for made in list(restorer.made.values()):
        if isinstance(made, nn.Module):
            _check_module(made, checked)
    return module


def _check_module(module: nn.Module, checked: set[int]) -> None:
    """Check that a module has the attributes that its class relies on, because its constructor was not called.
    `checked` are the dictionaries that were checked before."""
    for name, kind in MEMBERS.items():
        found = vars(module).get(name)
        if id(found) in checked:
            continue
        checked.add(id(found))
        if not isinstance(found, dict) or not all(
            isinstance(key, str) and (each is None or isinstance(each, kind)) for key, each in found.items()
        ):
            raise TypeError(f"the {name} of a {type(module).__name__} are invalid")
    missing = [name for name in ("training", *getattr(type(module), "__constants__", ())) if not hasattr(module, name)]
    if missing or not isinstance(module.training, bool):
        raise TypeError(f"a {type(module).__name__} has no {', '.join(missing or ['training'])}")
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        raise TypeError(f"a {type(module).__name__} is lazy and has no shape yet")


MEMBERS = {"_parameters": torch.Tensor, "_buffers": torch.Tensor, "_modules": nn.Module}


class _Restorer:
    """Makes each object once: `made` are the objects by the identity of their description."""

    def __init__(self, tensors: TensorReader) -> None:
        self.tensors = tensors
        self.largest = max(SMALL, tensors.path.stat().st_size)
        self.made: dict[int, Any] = {}
        self.copied = 0

    def make(self, value: Any) -> Any:
        if isinstance(value, SCALARS):
            return value
        if id(value) not in self.made:
            self.made[id(value)] = self._new(value)
        return self.made[id(value)]

    def _new(self, value: Any) -> Any:
        if isinstance(value, type) and issubclass(value, Inert):
            return _find_allowed(value.of)
        if isinstance(value, Inert):
            return self._object(value)
        if isinstance(value, tuple):
            return tuple(self.make(each) for each in value)
        if isinstance(value, set | frozenset):
            return type(value)(self._key(each) for each in value)
        # A list or dictionary may contain itself, so it is registered before it is filled.
        if isinstance(value, list):
            filled: Any = []
            self.made[id(value)] = filled
            filled.extend(self.make(each) for each in value)
            return filled
        if isinstance(value, dict):
            filled = OrderedDict() if isinstance(value, OrderedDict) else {}
            self.made[id(value)] = filled
            filled.update((self._key(k), self.make(v)) for k, v in value.items())
            return filled
        raise ForeignClassError(type(value).__name__)

    def _key(self, value: Any) -> Any:
        if not isinstance(value, SCALARS):
            raise ForeignClassError(getattr(value, "of", type(value).__name__))
        return value

    def _object(self, value: Inert) -> Any:
        if is_tensor(value):
            tensor = self.tensors.read(value)
            if value.of not in PARAMETERS:
                return tensor
            wants_grad = bool(value.args[1]) if len(value.args) > 1 else True
            return nn.Parameter(tensor, wants_grad and tensor.is_floating_point())
        if value.of == "builtins.getattr" and value.called:
            return _function(value)
        if value.of in CALLED and value.called:
            if any(isinstance(arg, tuple | list) and len(arg) > MAX_AXES for arg in value.args[:MAX_AXES]):
                raise TypeError(f"a {value.of} has too many parts")
            return CALLED[value.of](*(self.make(arg) for arg in value.args[:MAX_AXES]))
        kind = _find_allowed(value.of)
        if value.called or value.args or not isinstance(kind, type):
            raise ForeignClassError(value.of)
        made: Any = object.__new__(kind)
        self.made[id(value)] = made
        state = self.make(value.state)
        self._check_sizes(kind, state)
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        elif state:
            made.__dict__.update(state)
        if isinstance(made, nn.Module):
            _complete(made)
        return made

    def _check_sizes(self, kind: type, state: Any) -> None:
        """Refuse sizes larger than the file: setting up an LSTM of 10^12 layers would never end."""
        if not isinstance(state, Mapping):
            return
        self.copied += len(state)
        if self.copied > MAX_VISITS:
            raise TypeError("modules have too many attributes")
        for name, value in state.items():
            numbers = value[:MAX_AXES] if isinstance(value, tuple | list) else [value]
            if any(isinstance(each, int) and abs(each) > self.largest for each in numbers):
                raise TypeError(f"{name} of a {kind.__name__} is larger than the file")


def _complete(module: nn.Module) -> None:
    """Add attributes that an older torch did not save: those of a new module, and defaults of the constructor."""
    for name, value in vars(nn.Module()).items():
        vars(module).setdefault(name, value)
    for name, default in _defaults(type(module)).items():  # type: ignore[arg-type]
        if not hasattr(module, name):
            vars(module)[name] = default


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {
        p.name: p.default for p in parameters if isinstance(p.default, SCALARS) and p.name not in ("device", "dtype")
    }


# torch < 1.3 stored the object that ran its functions in every module.
BACKENDS = ("torch.nn.backends.thnn._get_thnn_function_backend", "torch.nn.backends.thnn.THNNFunctionBackend")
CALLED: dict[str, Callable[..., Any]] = {
    "torch.Size": torch.Size,
    "torch.device": lambda *_: torch.device("cpu"),
    "builtins.slice": slice,
    "builtins.complex": complex,
    **dict.fromkeys(BACKENDS, lambda *_: None),
}
HOLDER = "torch._C._VariableFunctionsClass"
ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}


def _function(value: Inert) -> Any:
    """Return a function that torch implements in C; these are pickled as attributes of a class."""
    match value.args:
        case (type() as holder, str(name)) if getattr(holder, "of", "") == HOLDER and name in ACTIVATIONS:
            return ACTIVATIONS[name]
    raise ForeignClassError(value.of)


def _find_allowed(name: str) -> Any:
    if name in BY_NAME:
        return BY_NAME[name]
    if name not in allowed():
        raise ForeignClassError(name)
    return allowed()[name]


@cache
def allowed() -> dict[str, Any]:
    """Return torch.nn's module classes, its pruning and weight norm hooks, and the activation functions that its
    transformer layers use, by their names in pickles."""
    found: list[Any] = []
    for holder in (nn.modules, prune, parametrize, parametrizations, weight_norm, spectral_norm):
        source = inspect.getmodule(holder)
        names = vars(source if source is not None else holder)
        found += [v for v in names.values() if inspect.isclass(v) and v.__module__.startswith("torch.nn.")]
    found += [nn.modules.linear.NonDynamicallyQuantizableLinear, nn.modules.module._WrappedHook]
    found += [nn.functional.relu, nn.functional.gelu, nn.functional.silu, nn.functional.leaky_relu]
    found += [nn.functional.elu, nn.functional.mish, nn.functional.softmax]
    return {_pickled_name(each): each for each in found}


def _pickled_name(each: Any) -> str:
    """Return the name as in the GLOBAL opcode, where module and name are lines."""
    return pickle.dumps(each, 0).decode()[1:].replace("\n", ".", 1).partition("\n")[0]


def find_foreign_names(names: tuple[str, ...]) -> list[str]:
    """Return the names that are not torch's."""
    known = {*allowed(), *CALLED, *MAKERS, *BY_NAME, HOLDER, "builtins.getattr", "_codecs.encode"}
    return sorted(name for name in names if name not in known and not name.endswith("Storage"))
