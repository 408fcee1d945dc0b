"""`prune` on a live module, between training steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import effsparse_cli
from effsparse_cli.errors import UsageError


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 5))


def mask(model: nn.Sequential) -> torch.Tensor:
    return model[0].get_buffer("weight_mask").clone()


@pytest.mark.parametrize("form", ["prune", "zeros"])
def test_the_module_reaches_the_target(form: str) -> None:
    model, x = network(), torch.zeros(1, 20)
    pruned = effsparse_cli.prune(model, x, 0.9, method="random", lsq="igq", form=form)
    totals = effsparse_cli.analyze(model, x).totals
    assert totals.active == totals.kept == pruned.totals.active
    assert 0 <= 0.9 - totals.effective_sparsity < 0.01
    assert hasattr(model[0], "weight_mask") == (form == "prune")


def test_masks_stay_during_training_and_further_pruning() -> None:
    model, x = network(), torch.zeros(1, 20)
    sparsities = []
    for target in (0.5, 0.8, 0.9):
        effsparse_cli.prune(model, x, target)
        before = mask(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
        assert torch.equal(mask(model), before)
        sparsities.append(effsparse_cli.analyze(model, x).totals.effective_sparsity)
        assert abs(sparsities[-1] - target) < 0.01
    kept = mask(model).bool()
    effsparse_cli.prune(model, x, 0.95)
    assert not (mask(model).bool() & ~kept).any()


def test_a_module_that_cannot_be_masked_is_left_unchanged() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.cell = nn.Linear(4, 4), nn.LSTM(4, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.cell(self.first(x))[0]
            return result

    model, x = Net(), torch.zeros(1, 3, 4)
    with pytest.raises(UsageError, match="recurrent"):
        effsparse_cli.prune(model, x, 0.5)
    assert not list(model.first.named_buffers())
    effsparse_cli.prune(model, x, 0.5, form="zeros")
    assert effsparse_cli.analyze(model, x).totals.direct_sparsity >= 0.45


@pytest.mark.parametrize("wrong", [{"form": "x"}, {"method": "x"}, {"target": 1.5}, {"method": "snip"}])
def test_wrong_usage(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        effsparse_cli.prune(network(), torch.zeros(1, 20), **{"target": 0.5, **wrong})  # type: ignore[arg-type]
