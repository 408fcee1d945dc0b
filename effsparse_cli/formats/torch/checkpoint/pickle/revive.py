"""A pickled module that is made of torch.nn's own classes alone becomes that module. Nothing is called but the way in
which these classes take up their state, and only after that state was found to be plausible for the file."""

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
from effsparse_cli.formats.torch.checkpoint.pickle.extent import VISITS, check_extent
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.modules import extents
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import BY_NAME, MAKERS, MOST_AXES, Tensors, is_tensor

SMALL = 4096
"""A number that any file may give for a size."""
PLAIN = (type(None), bool, int, float, str, bytes)


class UnknownError(LoadError):
    """A module holds something that is not torch.nn's; the message names it."""


def revive(value: Inert, tensors: Tensors) -> Any:
    """Raises UnknownError for what is not torch.nn's."""
    check_extent(tensors.path, extents(tensors.path).of(value))
    revival = _Revival(tensors)
    revived = revival.make(value)
    checked: set[int] = set()
    for made in list(revival.made.values()):
        if isinstance(made, nn.Module):
            _check(made, checked)
    return revived


def _check(module: nn.Module, checked: set[int]) -> None:
    """Has a module all that its class counts on? Its constructor, which would have seen to that, was never called.
    `checked` are the dictionaries that were seen before."""
    for name, kind in HELD.items():
        found = vars(module).get(name)
        if id(found) in checked:
            continue
        checked.add(id(found))
        if not isinstance(found, dict) or not all(
            isinstance(key, str) and (each is None or isinstance(each, kind)) for key, each in found.items()
        ):
            raise TypeError(f"a {type(module).__name__} whose {name} are none")
    missing = [name for name in ("training", *getattr(type(module), "__constants__", ())) if not hasattr(module, name)]
    if missing or not isinstance(module.training, bool):
        raise TypeError(f"a {type(module).__name__} without {', '.join(missing or ['training'])}")
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        raise TypeError(f"a {type(module).__name__}, which has no shape yet")


HELD = {"_parameters": torch.Tensor, "_buffers": torch.Tensor, "_modules": nn.Module}


class _Revival:
    """What stands in two places is one object: `made` by the identity of its description."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.largest = max(SMALL, tensors.path.stat().st_size)
        self.made: dict[int, Any] = {}
        self.copied = 0

    def make(self, value: Any) -> Any:
        if isinstance(value, PLAIN):
            return value
        if id(value) not in self.made:
            self.made[id(value)] = self._new(value)
        return self.made[id(value)]

    def _new(self, value: Any) -> Any:
        if isinstance(value, type) and issubclass(value, Inert):
            return _known(value.of)
        if isinstance(value, Inert):
            return self._object(value)
        if isinstance(value, tuple):
            return tuple(self.make(each) for each in value)
        if isinstance(value, set | frozenset):
            return type(value)(self._key(each) for each in value)
        # A list or dictionary may contain itself, so it is there before its entries are.
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
        raise UnknownError(type(value).__name__)

    def _key(self, value: Any) -> Any:
        if not isinstance(value, PLAIN):
            raise UnknownError(getattr(value, "of", type(value).__name__))
        return value

    def _object(self, value: Inert) -> Any:
        if is_tensor(value):
            tensor = self.tensors.make(value)
            if value.of not in PARAMETERS:
                return tensor
            wants_grad = bool(value.args[1]) if len(value.args) > 1 else True
            return nn.Parameter(tensor, wants_grad and tensor.is_floating_point())
        if value.of == "builtins.getattr" and value.called:
            return _function(value)
        if value.of in CALLED and value.called:
            if any(isinstance(arg, tuple | list) and len(arg) > MOST_AXES for arg in value.args[:MOST_AXES]):
                raise TypeError(f"a {value.of} of too many parts")
            return CALLED[value.of](*(self.make(arg) for arg in value.args[:MOST_AXES]))
        kind = _known(value.of)
        if value.called or value.args or not isinstance(kind, type):
            raise UnknownError(value.of)
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
        """No layer has a size that is larger than the file with its weights. An LSTM of 10^12 layers would never be
        set up."""
        if not isinstance(state, Mapping):
            return
        self.copied += len(state)
        if self.copied > VISITS:
            raise TypeError("modules with far more attributes than modules have")
        for name, value in state.items():
            numbers = value[:MOST_AXES] if isinstance(value, tuple | list) else [value]
            if any(isinstance(each, int) and abs(each) > self.largest for each in numbers):
                raise TypeError(f"a {kind.__name__} whose {name} is larger than the whole file")


def _complete(module: nn.Module) -> None:
    """Modules that were pickled by an older torch lack attributes which came later. They get the values that stand for
    what the module did before: those of a new module, and the defaults of the constructor's arguments."""
    for name, value in vars(nn.Module()).items():
        vars(module).setdefault(name, value)
    for name, default in _defaults(type(module)).items():  # type: ignore[arg-type]
        if not hasattr(module, name):
            vars(module)[name] = default


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {p.name: p.default for p in parameters if isinstance(p.default, PLAIN) and p.name not in ("device", "dtype")}


PARAMETERS = {
    "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state", "torch.nn.parameter.Parameter",
}  # fmt: skip
# torch < 1.3 stored in every module the object that ran its functions.
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
    """Functions that torch has in C are pickled as attributes of a class."""
    match value.args:
        case (type() as holder, str(name)) if getattr(holder, "of", "") == HOLDER and name in ACTIVATIONS:
            return ACTIVATIONS[name]
    raise UnknownError(value.of)


def _known(name: str) -> Any:
    if name in BY_NAME:
        return BY_NAME[name]
    if name not in allowed():
        raise UnknownError(name)
    return allowed()[name]


@cache
def allowed() -> dict[str, Any]:
    """torch.nn's module classes, its pruning and weight-norm hooks, and the activations that its transformer layers
    hold as functions, by the names that pickles have for them."""
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
    """As the GLOBAL operation has it: module and name on a line each."""
    return pickle.dumps(each, 0).decode()[1:].replace("\n", ".", 1).partition("\n")[0]


def strangers(asked: tuple[str, ...]) -> list[str]:
    """The names that are not torch's, of those that a file asks for."""
    known = {*allowed(), *CALLED, *MAKERS, *BY_NAME, HOLDER, "builtins.getattr", "_codecs.encode"}
    return sorted(name for name in asked if name not in known and not name.endswith("Storage"))
