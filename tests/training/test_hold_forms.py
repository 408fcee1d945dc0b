"""Held weights of models that are shared, masked, parametrized or copied, and the end of a hold."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils import prune as torch_prune

from effsparse_cli import prune
from effsparse_cli.errors import UsageError
from effsparse_cli.training.hold import Hold, hold
from tests.training.finetuning import (
    INPUTS,
    SGD,
    STEPS,
    assert_held,
    network,
    nonzero,
    prune_to_zeros,
    train,
)
from tests.training.networks import Tokens


def test_tied_weights() -> None:
    model = Tokens()
    mask = torch.rand(7, 6) < 0.5
    hold(model, {"out.weight": mask})
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.arange(7)[None]).square().sum().backward()
        optimizer.step()
    assert torch.equal(model.table.weight != 0, mask)
    model.out.load_state_dict({"weight": torch.ones(7, 6)})
    assert torch.equal(model.table.weight != 0, mask)
    with pytest.raises(UsageError, match=r"table.weight and out.weight are both for table.weight, and differ"):
        hold(model, {"table.weight": mask, "out.weight": ~mask})


@pytest.mark.parametrize("end", [lambda held: held.release(), lambda held: held.__exit__(None, None, None)])
def test_released_weights_are_trained_again(end: Callable[[Hold], None]) -> None:
    model = network()
    pruned = prune_to_zeros(model)
    held = hold(model, pruned)
    end(held)
    assert sum(nonzero(model)) == pruned.totals.kept
    train(model, SGD(model), 1)
    assert sum(nonzero(model)) > pruned.totals.kept
    model.load_state_dict(network().state_dict())
    assert nonzero(model) == [600, 900, 150]
    assert held.masks == {}
    end(held)


def test_a_second_hold_replaces_the_first() -> None:
    model = network()
    first = hold(model, {"0.weight": torch.eye(30, INPUTS) > 0, "2.weight": torch.eye(30) > 0})
    second = hold(model, {"0.weight": torch.ones(30, INPUTS, dtype=torch.bool)})
    assert list(first.masks) == ["2.weight"]
    assert list(second.masks) == ["0.weight"]
    first.release()
    train(model, SGD(model), 1)
    assert nonzero(model)[0] > 20
    assert repr(second) == "Hold(1 parameters, 0 of 600 weights at zero)"


def test_custom_updates_are_undone_on_request() -> None:
    model = network()
    held = hold(model, {"0": torch.eye(30, INPUTS) > 0})
    with torch.no_grad():
        model[0].weight.add_(1)
    held.apply()
    assert nonzero(model)[0] == 20


def test_zeros_are_held_by_default() -> None:
    model = network()
    pruned = prune_to_zeros(model)
    with torch.no_grad():
        model[0].bias.zero_()
    held = hold(model)
    assert {name: mask.sum() for name, mask in held.masks.items()} == {
        f"{name}.weight": mask.sum() for name, mask in pruned.masks.items()
    }
    train(model, SGD(model), 3)
    assert_held(model, pruned.totals.kept)
    assert model[0].bias.any()
    with pytest.raises(UsageError, match="no zeros and no masks to hold"):
        hold(network())
    with pytest.warns(UserWarning, match="weight is all zeros"):
        hold(nn.Linear(2, 2).requires_grad_(False).apply(lambda each: nn.init.zeros_(each.weight)))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [True, False])
def test_masks_of_torch_prune(given: bool) -> None:
    model, x = network(), torch.zeros(1, INPUTS)
    pruned = prune(model, x, 0.9)
    keys = list(model.state_dict())
    hold(model, pruned if given else None)
    assert sum(nonzero(model)) == pruned.totals.kept
    train(model, SGD(model), STEPS)
    assert list(model.state_dict()) == keys
    assert_held(model, pruned.totals.kept)
    assert sum(nonzero(model)) == pruned.totals.kept
    for layer in model[::2]:
        torch_prune.remove(layer, "weight")  # type: ignore[no-untyped-call]
    train(model, SGD(model), 3)
    assert_held(model, pruned.totals.kept)


def test_masks_that_the_model_stores_are_replaced() -> None:
    """Weights that only the old mask pruned do not get their old values back."""
    layer: Any = nn.Linear(2, 1)
    torch_prune.custom_from_mask(layer, "weight", torch.tensor([[1.0, 0.0]]))  # type: ignore[no-untyped-call]
    hold(layer, {"weight": torch.tensor([[False, True]])})
    assert layer.weight_mask.tolist() == [[0, 1]]
    assert layer.weight_orig.tolist() == layer.weight.tolist() == [[0, 0]]
    layer.load_state_dict({**layer.state_dict(), "weight_orig": torch.ones(1, 2), "weight_mask": torch.ones(1, 2)})
    assert layer.weight_mask.tolist() == layer.weight_orig.tolist() == [[0, 1]]


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def test_parametrized_weights() -> None:
    model: Any = network()
    pruned = prune_to_zeros(model)
    parametrize.register_parametrization(model[0], "weight", Scaled())
    hold(model, pruned)
    train(model, SGD(model), 3)
    assert sum(nonzero(model)) == pruned.totals.kept
    parametrize.remove_parametrizations(model[0], "weight")
    train(model, SGD(model), 3)
    assert sum(nonzero(model)) == pruned.totals.kept


def pickled(model: nn.Module) -> nn.Module:
    data = pickle.dumps(model)
    assert b"effsparse" not in data
    copied: nn.Module = pickle.loads(data)
    return copied


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    copied: nn.Module = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    return copied


CALLS: list[str] = []


def noted(module: nn.Module, _: object) -> None:
    CALLS.append(type(module).__name__)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled, saved])
def test_copies_are_not_held(duplicate: Callable[[nn.Module], nn.Module]) -> None:
    model = network()
    handle = model[0].register_load_state_dict_post_hook(noted)
    pruned = prune_to_zeros(model)
    hold(model, pruned)
    model[0].register_load_state_dict_post_hook(noted)
    copied = duplicate(model)
    assert nonzero(copied) == nonzero(model)
    CALLS.clear()
    copied.load_state_dict(network().state_dict())
    assert len(CALLS) == 2
    assert sum(nonzero(copied)) == 1650
    train(copied, SGD(copied), 1)
    handle.remove()
    CALLS.clear()
    model.load_state_dict(network().state_dict())
    assert len(CALLS) == 1
    assert sum(nonzero(model)) == pruned.totals.kept


def test_a_held_model_is_not_kept_alive() -> None:
    model = network()
    held = hold(model, prune_to_zeros(model))
    optimizer = SGD(model)
    train(model, optimizer, 2)
    gone = [weakref.ref(each) for each in (model, model[0], model[0].weight)]
    del model, optimizer
    gc.collect()
    assert [each() for each in gone] == [None] * 3
    assert held.masks == {}
