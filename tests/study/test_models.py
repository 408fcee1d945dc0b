"""Models of experiments: initialization, batch norm, seeds, and models that do not fit the data."""

from __future__ import annotations

import math
import random
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.study.experiment import prepare
from effsparse_cli.study.models import build_model, initialize
from effsparse_cli.study.network import Network
from tests.study.tiny import make_task

HERE = "tests.study.tiny"


@pytest.mark.parametrize(("name", "shape"), [("lenet-300-100", (1, 28, 28)), ("lenet-5", (3, 32, 32))])
def test_paper_models_have_batch_norm_and_kaiming_weights(name: str, shape: tuple[int, ...]) -> None:
    model = build_model(name, classes=10, shape=shape, seed=0)
    layers = [each for each in model.modules() if isinstance(each, nn.Linear | nn.Conv2d)]
    norms = [each for each in model.modules() if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert len(norms) == len(layers) - 1
    for layer in layers:
        outputs, inputs, *taps = layer.weight.shape
        expected = math.sqrt(4 / ((inputs + outputs) * math.prod(taps)))
        # The standard deviation of n draws varies by 1 / sqrt(2 n).
        assert layer.weight.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * layer.weight.numel()))
        assert layer.bias is None or not layer.bias.any()


def test_fans_of_groups() -> None:
    depthwise = nn.Conv2d(4096, 4096, 3, groups=4096)
    torch.manual_seed(0)
    initialize(depthwise)
    assert depthwise.weight.std().item() == pytest.approx(math.sqrt(2 / 9), rel=0.02)


def lazy() -> nn.Module:
    """Its weights are drawn when it is first called."""
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(4))


def drawn_by_numpy() -> nn.Module:
    layer = nn.Linear(64, 4)
    nn.init.constant_(layer.weight, np.random.rand() + random.random())
    return nn.Sequential(nn.Flatten(), layer)


@pytest.mark.parametrize("name", [f"{HERE}:mlp", f"{__name__}:lazy", f"{__name__}:drawn_by_numpy"])
def test_seeds(name: str) -> None:
    before = random.getstate(), str(np.random.get_state(legacy=False)), torch.get_rng_state().tolist()
    first, same, other = (build_model(name, classes=4, shape=(1, 8, 8), seed=n).state_dict() for n in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["1.weight"], other["1.weight"])
    assert before == (random.getstate(), str(np.random.get_state(legacy=False)), torch.get_rng_state().tolist())


def ends_the_process() -> nn.Module:
    sys.exit("no license")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lenet-5", "does not fit the data: on examples of 1x8x8"),
        (f"{HERE}:datasets", "must return a torch.nn.Module, not tuple"),
        (f"{__name__}:ends_the_process", "failed: SystemExit: no license"),
        (f"{HERE}:absent", "absent does not exist"),
        ("lenet", "model lenet: unknown; did you mean lenet-5"),
    ],
)
def test_models_that_do_not_fit(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_model(name, classes=4, shape=(1, 8, 8), seed=0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("masked", "1 is pruned before the study begins: it has a mask"),
        ("normalized", "1: weights are mixed before use"),
        ("WithArrayState", "_extra_state: get_extra_state returns more than tensors"),
    ],
)
def test_models_that_cannot_be_pruned(name: str, message: str) -> None:
    model = build_model(f"tests.study.odd:{name}", classes=4, shape=(1, 8, 8), seed=0)
    with pytest.raises(UsageError, match=message):
        Network(model, (1, 8, 8), torch.device("cpu"))


class Pair(nn.Linear):
    """Returns two outputs in training."""

    def __init__(self) -> None:
        super().__init__(64, 4)

    def forward(self, x: torch.Tensor) -> Any:
        outputs = super().forward(x.flatten(1))
        return (outputs, outputs) if self.training else outputs


def frozen() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4)).requires_grad_(False)


@pytest.mark.parametrize(
    ("name", "message"), [("Pair", "returns tuple in training"), ("frozen", "no parameters to train")]
)
def test_models_that_cannot_be_trained(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        prepare(make_task("dense", 1, model=f"{__name__}:{name}"))


def one_output() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 1))


def test_wrong_number_of_classes() -> None:
    with pytest.raises(UsageError, match="returns 2x1, but it must return 2x4, a score for each of 4 classes"):
        build_model(f"{__name__}:one_output", classes=4, shape=(1, 8, 8), seed=0)
