"""Masks of every kind reach the parameters that they are for, once; `finalize` leaves plain parameters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import prune as torch_prune

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.formats.masks.conventions import CONVENTIONS, Convention
from effsparse_cli.training.finalize import finalize
from effsparse_cli.training.hold import hold
from effsparse_cli.training.masks import apply_masks
from tests.training.changes import Holes

MASK = torch.tensor([[1, 0, 1], [0, 0, 1]], dtype=torch.bool)


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))


def kept(model: Any) -> torch.Tensor:
    stored: torch.Tensor = model[0].weight != 0
    return stored


@pytest.mark.parametrize(
    "name",
    ["0.weight", "0", "0.weight_mask", "0.weight_orig", "module.0.weight", "_orig_mod.0.weight", "module._orig_mod.0"],
)
@pytest.mark.parametrize("form", ["plain", "prune", "parametrization"])
@pytest.mark.parametrize("wrapper", ["none", "compile", "inner", "parallel"])
def test_names(name: str, form: str, wrapper: str) -> None:
    model = network()
    layer = model[0]
    if form == "prune":
        torch_prune.identity(layer, "weight")  # type: ignore[no-untyped-call]
    if form == "parametrization":
        parametrize.register_parametrization(layer, "weight", Holes(torch.ones(2, 3)))
    if wrapper == "inner":
        model[0] = torch.compile(layer)
    wrappers: dict[str, Any] = {"compile": torch.compile, "parallel": nn.DataParallel}
    apply_masks(wrappers[wrapper](model) if wrapper in wrappers else model, {name: MASK})
    assert torch.equal(layer.weight != 0, MASK)
    if form == "prune":
        assert torch.equal(layer.weight_mask, MASK.float())
    if form == "parametrization":
        assert torch.equal(layer.parametrizations.weight[0].mask, MASK.float())


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda each: f"{each.library}: {each.mask}")
@pytest.mark.parametrize("suffix", [".pt", ".npz", ".safetensors"])
def test_files_of_every_convention(convention: Convention, suffix: str, tmp_path: Path) -> None:
    model = nn.Sequential()
    model.add_module("model", network()) if "model." in convention.parameter else model.extend(network())
    name, path = convention.mask_name("0.weight"), tmp_path / f"masks{suffix}"
    mask = MASK[:, 0].clone() if convention.per_output else MASK
    if suffix == ".pt":
        torch.save({name: mask.float()}, path)
    elif suffix == ".npz":
        np.savez(path, **{name: mask.numpy()})  # type: ignore[arg-type]
    else:
        save_file({name: mask.bfloat16()}, path)
    apply_masks(model, path)
    layer = model.get_submodule("model.0" if "model." in convention.parameter else "0")
    expected = mask[:, None].expand(2, 3) if convention.per_output else mask
    assert torch.equal(layer.get_parameter("weight") != 0, expected)
    assert layer.get_parameter("bias").all()


@pytest.mark.parametrize(
    "masks",
    [
        {"0.weight": MASK},
        {"0.weight": MASK.numpy()},
        {"0.weight": MASK.to(torch.float8_e5m2)},
        {"0.weight": MASK.numpy().astype(np.int8)},
        SimpleNamespace(masks={"0": MASK.numpy()}),
        {"0.weight_orig": torch.randn(2, 3), "0.weight_mask": MASK, "2.weight": torch.randn(1, 2), "0.bias": MASK[0]},
    ],
)
def test_kinds_of_masks(masks: Any) -> None:
    model = network()
    before = model[0].weight.clone()
    apply_masks(model, masks)
    assert torch.equal(model[0].weight, torch.where(MASK, before, 0))
    assert model[2].weight.all()


def test_biases_have_masks_too() -> None:
    model = network()
    apply_masks(model, {"0.bias": torch.tensor([True, False])})
    assert (model[0].bias != 0).tolist() == [True, False]


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"0.wight": MASK}, r'mask "0.wight" matches no parameter of the model. The closest are 0.weight'),
        ({"0.weight": MASK.T}, r'"0.weight" has shape 3x2, but 0.weight has shape 2x3. Is it transposed'),
        ({"0.weight": MASK[:, 0]}, r'"0.weight" has shape 2, but 0.weight has shape 2x3'),
        ({"0.weight": torch.randn(2, 3)}, r'^mask "0.weight" is not binary'),
        ({"0.weight": torch.full((2, 3), torch.nan)}, r"contains NaN"),
        ({"0.weight": np.full((2, 3), "a")}, r"has dtype"),
        ({"0.weight": MASK, "0": ~MASK}, r"masks 0.weight and 0 are both for 0.weight, and differ"),
        ({"0.weight": [[1, 0, 1], [0, 0, 1]]}, r'mask "0.weight" is a list: pass a boolean tensor or array'),
        ({}, r"masks is empty"),
        (None, r"masks cannot be a NoneType: pass a mapping"),
        (3, r"masks cannot be a int"),
    ],
)
def test_wrong_masks_change_nothing(masks: Any, message: str) -> None:
    model = network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if isinstance(masks, dict) and masks:
        masks = {"2.weight": torch.zeros(1, 2, dtype=torch.bool), **masks}
    with pytest.raises(UsageError, match=message):
        apply_masks(model, masks)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_wrong_files(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("text")
    for path, message in [("absent.pt", r"absent.pt does not exist"), ("text.pt", r"text.pt is not a .safetensors")]:
        with pytest.raises(LoadError, match=message) as error:
            apply_masks(network(), str(tmp_path / path))
        assert "--masks" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LazyLinear(2), "has no shape yet"),
        (lambda: nn.Linear(3, 2, device="meta"), "meta device"),
    ],
)
def test_parameters_without_values(make: Any, message: str) -> None:
    with pytest.raises(EffsparseError, match=message):
        apply_masks(make(), {"weight": MASK})


def masked_network(form: str) -> Any:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), parametrizations.weight_norm(nn.Linear(2, 2)), nn.Linear(2, 1))
    if form == "prune":
        torch_prune.l1_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
        torch_prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
        torch_prune.random_unstructured(model[0], "bias", 0.5)  # type: ignore[no-untyped-call]
    elif form == "hold":
        hold(model, {"0": MASK})
    else:
        parametrize.register_parametrization(model[0], "weight", Holes(MASK.float()))
    return model


@given(form=st.sampled_from(["prune", "parametrization", "hold"]), seed=st.integers(0, 100))
def test_finalized_models_are_plain(form: str, seed: int) -> None:
    torch.manual_seed(seed)
    model = masked_network(form)
    x = torch.randn(4, 3)
    before, trained = model(x), {id(each) for each in model.parameters()}
    assert finalize(model) is model
    assert torch.equal(model(x), before)
    assert {id(each) for each in model.parameters()} == trained
    assert type(model[0]) is nn.Linear
    assert set(model[0].state_dict()) == {"weight", "bias"}
    assert not model[0].weight.all()
    assert parametrize.is_parametrized(model[2])
    model[0].weight.data.fill_(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(x).sum().backward()
    optimizer.step()
    assert model[0].weight.all()


class Normalized(Holes):
    """Has a mask, but does more than multiply by it."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        masked: torch.Tensor = super().forward(weight) / weight.norm()
        return masked


def test_other_parametrizations_stay() -> None:
    model = network()
    parametrize.register_parametrization(model[0], "weight", Normalized(MASK.float()))
    finalize(model)
    assert parametrize.is_parametrized(model[0])


def test_structured_masks_are_finalized() -> None:
    from torch.ao.pruning._experimental.pruner.parametrization import FakeStructuredSparsity

    model = network()
    parametrize.register_parametrization(model[0], "weight", FakeStructuredSparsity(torch.tensor([True, False])))  # type: ignore[no-untyped-call]
    finalize(model)
    assert kept(model).all(1).tolist() == [True, False]
    assert not parametrize.is_parametrized(model[0])
