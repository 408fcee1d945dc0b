"""A pickled module, read as data: its tensors under the names of its state_dict, or, if it is made of torch.nn's own
classes alone, the module itself."""

from __future__ import annotations

import inspect
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

from effsparse_cli.errors import LoadError
from effsparse_cli.load.torch.checkpoint.inert import Inert
from effsparse_cli.load.torch.checkpoint.tensors import BY_NAME, MAKERS, Tensors, is_tensor

MOST_NAMES = 1_000_000


class UnknownError(LoadError):
    """A module holds something that is not torch.nn's; the message names it."""


def is_module(value: object) -> bool:
    if not isinstance(value, Inert) or not isinstance(value.state, Mapping):
        return False
    return value.of.startswith("__torch__.") or "_modules" in value.state


def is_opaque(value: object) -> bool:
    """An object of a class of its own whose state is no module's: only its own code could read it."""
    return isinstance(value, Inert) and not is_module(value) and not is_tensor(value) and value.entries is None


def named_tensors(path: Path, module: Inert) -> dict[str, Inert]:
    """By the names that its state_dict has, which tied modules have twice."""
    found: dict[str, Inert] = {}
    pending: list[tuple[str, Inert, tuple[int, ...]]] = [("", module, ())]
    while pending:
        prefix, current, above = pending.pop()
        if id(current) in above or len(found) > MOST_NAMES or len(above) > 1000:
            raise LoadError(f"{path} is damaged: a module in it contains itself")
        children = []
        for name, value in _members(current):
            if is_tensor(value):
                found[prefix + name] = value
            elif is_module(value):
                children.append((f"{prefix}{name}.", value, (*above, id(current))))
            elif value is not None:
                raise LoadError(
                    f"{path}: {prefix}{name} is a {getattr(value, 'of', type(value).__name__)}, which has its own way "
                    "of being stored; its weights cannot be read as data. --trust lets the file run its own code."
                )
        pending += reversed(children)
    return found


def _members(module: Inert) -> Iterator[tuple[str, Any]]:
    if module.of.startswith("__torch__."):
        yield from ((str(k), v) for k, v in module.state.items() if is_tensor(v) or is_module(v))
        return
    hidden = module.state.get("_non_persistent_buffers_set")
    hidden = hidden if isinstance(hidden, set) else ()
    for holder in ("_parameters", "_buffers", "_modules"):
        held = module.state.get(holder)
        for name, value in held.items() if isinstance(held, Mapping) else ():
            if holder != "_buffers" or name not in hidden:
                yield str(name), value


def revive(value: Any, tensors: Tensors) -> Any:
    """The object itself, made without calling anything but torch.nn's own classes' way of taking up their state.
    Raises UnknownError for what is not torch.nn's."""
    revival = _Revival(tensors)
    revived = revival.make(value)
    for made in revival.made.values():
        if isinstance(made, nn.Module):
            _check(made)
    return revived


def _check(module: nn.Module) -> None:
    """Has a module all that its class counts on? Its constructor, which would have seen to that, was never called."""
    held = {"_parameters": torch.Tensor, "_buffers": torch.Tensor, "_modules": nn.Module}
    for name, kind in held.items():
        found = vars(module).get(name)
        if not isinstance(found, dict) or not all(
            isinstance(key, str) and (each is None or isinstance(each, kind)) for key, each in found.items()
        ):
            raise TypeError(f"a {type(module).__name__} whose {name} are none")
    needed = ("training", *(vars(nn.Module()).keys() - held.keys()), *getattr(type(module), "__constants__", ()))
    missing = [name for name in needed if not hasattr(module, name)]
    if missing or not isinstance(module.training, bool):
        raise TypeError(f"a {type(module).__name__} without {', '.join(missing or ['training'])}")


class _Revival:
    """What stands in two places is one object: `made` by the identity of its description, which `kept` keeps."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.made: dict[int, Any] = {}

    def make(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return value
        if id(value) not in self.made:
            self.made[id(value)] = self._new(value)
        return self.made[id(value)]

    def _new(self, value: Any) -> Any:
        if isinstance(value, type) and issubclass(value, Inert):
            return _known(value.of)
        if isinstance(value, Inert):
            return self._object(value)
        if isinstance(value, tuple | set | frozenset):
            return type(value)(self.make(each) for each in value)
        # A list or dictionary may contain itself, so it is there before its entries are.
        if isinstance(value, list):
            filled: Any = []
            self.made[id(value)] = filled
            filled.extend(self.make(each) for each in value)
            return filled
        if isinstance(value, dict):
            filled = OrderedDict() if isinstance(value, OrderedDict) else {}
            self.made[id(value)] = filled
            filled.update((self.make(k), self.make(v)) for k, v in value.items())
            return filled
        raise UnknownError(type(value).__name__)

    def _object(self, value: Inert) -> Any:
        if is_tensor(value):
            tensor = self.tensors.make(value)
            is_parameter = "_rebuild_parameter" in value.of
            return nn.Parameter(tensor, bool(value.args[1])) if is_parameter else tensor
        if value.of == "builtins.getattr" and value.called:
            return _function(value)
        if value.of in CALLED and value.called:
            return CALLED[value.of](*(self.make(arg) for arg in value.args))
        kind = _known(value.of)
        if value.called or value.args or not isinstance(kind, type):
            raise UnknownError(value.of)
        made: Any = object.__new__(kind)
        self.made[id(value)] = made
        state = self.make(value.state)
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        elif state:
            made.__dict__.update(state)
        return made


CALLED: dict[str, Callable[..., Any]] = {
    "torch.Size": torch.Size,
    "torch.device": lambda *_: torch.device("cpu"),
    "builtins.slice": slice,
    "builtins.complex": complex,
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
