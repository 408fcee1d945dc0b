"""The network of an experiment before any training: the paper's models with batch norm and Kaiming normal weights, or
the user's own with its own initialization, both seeded."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable

import torch
from torch import nn

from effsparse_cli.arguments import choose
from effsparse_cli.errors import EffsparseError, UsageError, describe_error
from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from effsparse_cli.imports import import_object
from effsparse_cli.study.data.batches import restored_draws, seed_draws


def build_model(name: str, *, classes: int, shape: tuple[int, ...], seed: int) -> nn.Module:
    """Build a model and check that it classifies examples of this shape."""
    with restored_draws(torch.device("cpu")):
        seed_draws("initial weights", seed)
        if ":" in name:
            model = _call_factory(name, classes)
        else:
            model = _build_paper_model(choose(name, BUILT_IN, "model"), classes)
            initialize(model)
        check_fit(name, model, classes, shape)  # lazy modules draw their weights here
    return model


def _build_paper_model(name: str, classes: int) -> nn.Module:
    make = BUILT_IN[name].make
    return make(num_classes=classes, **({"batch_norm": True} if _accepts(make, "batch_norm") else {}))


def _call_factory(name: str, classes: int) -> nn.Module:
    factory = import_object(name, "model", "a built-in model, or package.module:factory")
    try:
        model = factory(num_classes=classes) if _accepts(factory, "num_classes") else factory()
    except EffsparseError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"model {name} failed: {describe_error(error)}") from error
    model = getattr(model, "_orig_mod", model)  # of torch.compile
    if not isinstance(model, nn.Module):
        raise UsageError(f"model {name} must return a torch.nn.Module, not {type(model).__name__}.")
    return model


def _accepts(function: Callable[..., object], argument: str) -> bool:
    try:
        return argument in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


@torch.no_grad()
def initialize(model: nn.Module) -> None:
    """Draw weights from a normal distribution with variance 2 over the mean of fan-in and fan-out; biases are zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            outputs, inputs = module.weight.shape[:2]
            taps = math.prod(module.weight.shape[2:])
            # A group of a convolution has its own outputs, as it has its own inputs.
            fans = taps * inputs, taps * outputs // getattr(module, "groups", 1)
            module.weight.normal_(0, math.sqrt(2 / (sum(fans) / 2)))
            if module.bias is not None:
                module.bias.zero_()


def check_fit(name: str, model: nn.Module, classes: int, shape: tuple[int, ...]) -> None:
    modes = {module: module.training for module in model.modules()}
    try:
        _check_outputs(name, model.eval(), classes, torch.zeros(2, *shape))
    finally:
        for module, training in modes.items():
            module.training = training


def check_training(name: str, model: nn.Module, classes: int, examples: torch.Tensor) -> None:
    """Try a copy of the model in training mode, on two examples."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UsageError(f"model {name} has no parameters to train.")
    with restored_draws(torch.device("cpu")):
        _check_outputs(name, copy.deepcopy(model).train(), classes, examples)


@torch.no_grad()
def _check_outputs(name: str, model: nn.Module, classes: int, examples: torch.Tensor) -> None:
    sizes, mode = "x".join(map(str, examples.shape[1:])), " in training" if model.training else ""
    try:
        outputs = model(examples)
    except (Exception, SystemExit) as error:
        reason = describe_error(error)
        raise UsageError(f"model {name} does not fit the data: on examples of {sizes}{mode}, {reason}") from error
    if not isinstance(outputs, torch.Tensor) or outputs.shape != (2, classes):
        found = "x".join(map(str, outputs.shape)) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise UsageError(
            f"model {name} does not fit the data: for a batch of two examples of {sizes} it returns {found}{mode}, but "
            f"it must return 2x{classes}, a score for each of {classes} classes."
        )
