"""Which constants are folded in PyTorch models, and where: one small module per situation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from effsparse_cli.api import repair
from effsparse_cli.folding.decide import DIFFERENT, NOT_UNIFORM, BiasSlot
from effsparse_cli.folding.rounds import NOT_FOLLOWED
from effsparse_cli.folding.torch import bias_slots, contributions
from effsparse_cli.folding.torch import model as torch_model
from effsparse_cli.folding.torch.model import add_biases
from effsparse_cli.folding.verify import ChangedError
from tests.folding.trained import like_trained, repaired

IMAGE = torch.zeros(2, 3, 8, 8, dtype=torch.float64)
ROW = torch.zeros(2, 6, dtype=torch.float64)


def made(*layers: nn.Module, density: float = 1.0) -> Any:
    model = nn.Sequential(*layers).double()
    like_trained(model, density)
    return model


def cut(layer: Any, *rows: int) -> None:
    """Remove the inputs of these outputs of a layer, and give them a bias that a relu lets through."""
    with torch.no_grad():
        layer.weight[list(rows)] = 0
        layer.bias[list(rows)] = 0.7


def test_constants_go_into_the_next_bias() -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    cut(model[0], 1, 3)
    done = repaired(model, ROW)
    assert (done.removed, done.folded, done.left, done.added) == (8, 8, (), ())
    assert done.zeroed == {"0.bias": 2}
    assert not model[0].bias[[1, 3]].any()


def test_constants_pass_activation_and_pooling_into_a_batch_norm() -> None:
    model = made(nn.Conv2d(3, 5, 3), nn.Sigmoid(), nn.MaxPool2d(2), nn.Conv2d(5, 4, 2, bias=False), nn.BatchNorm2d(4))
    cut(model[0], 2)
    mean = model[4].running_mean.clone()
    done = repaired(model, IMAGE)
    assert (done.folded, done.added, done.left) == (16, (), ())
    assert not torch.equal(model[4].running_mean, mean)


def test_a_layer_without_bias_gets_one() -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False))
    cut(model[0], 0)
    done = repaired(model, ROW)
    assert done.added == ("2.bias",)
    assert model[2].bias.requires_grad
    assert model[2].bias.dtype == torch.float64


def test_a_layer_gets_no_bias_if_none_may_be_added() -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False))
    cut(model[0], 0)
    done = repair(model, ROW, add_biases=False)
    assert [(each.layer, each.connections, each.reason) for each in done.result.left] == [("2", 4, bias_slots.NO_SLOT)]
    assert model[2].bias is None


def test_a_constant_that_a_relu_cuts_off_needs_no_bias() -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False))
    cut(model[0], 0)
    with torch.no_grad():
        model[0].bias[0] = -1
    done = repaired(model, ROW)
    assert (done.folded, done.added, done.left) == (4, (), ())


def test_padding_leaves_borders_without_the_constant() -> None:
    model = made(nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1))
    cut(model[0], 2)
    done = repaired(model, IMAGE)
    assert [(each.layer, each.connections, each.reason) for each in done.left] == [("2", 36, NOT_UNIFORM)]


def test_padding_that_a_tap_never_reads_does_not_matter() -> None:
    """The center of the kernel reads every position of the image."""
    model = made(nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1))
    cut(model[0], 2)
    with torch.no_grad():
        centre = model[2].weight[:, 2, 1, 1].clone()
        model[2].weight[:, 2] = 0
        model[2].weight[:, 2, 1, 1] = centre
    done = repaired(model, IMAGE)
    assert (done.folded, done.left) == (4, ())


def test_channels_are_decided_one_by_one() -> None:
    model = made(nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1))
    cut(model[0], 2)
    with torch.no_grad():
        model[2].weight[1:, 2] = 0
        model[2].weight[1:, 2, 1, 1] = 1
    done = repaired(model, IMAGE)
    assert done.folded == 3
    assert [each.connections for each in done.left] == [9]


def test_positions_that_nothing_reads_do_not_matter() -> None:
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 5, 1)
            self.second = nn.Conv2d(5, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.second(torch.relu(self.first(x)))
            return y[:, :, 1:-1, 1:-1]

    model = made(Inside())
    cut(model[0].first, 2)
    done = repaired(model, IMAGE)
    assert (done.folded, done.left) == (36, ())


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_and_transposed(groups: int) -> None:
    model = made(
        nn.Conv2d(3, 4, 3), nn.Sigmoid(), nn.Conv2d(4, 6, 2, groups=groups, bias=False), nn.Sigmoid(),
        nn.ConvTranspose2d(6, 4, 1, groups=groups),
    )  # fmt: skip
    cut(model[0], 1)
    with torch.no_grad():
        model[2].weight[4] = 0
    done = repaired(model, IMAGE)
    assert (done.folded, done.left) == (4 * (5 if groups == 1 else 3) + 4 // groups, ())


class Twice(nn.Module):
    """A layer that is used twice, with the same or with different constants."""

    def __init__(self, same: bool) -> None:
        super().__init__()
        self.first, self.shared, self.same = nn.Linear(6, 5), nn.Linear(5, 5), same

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.sigmoid(self.first(x))
        return self.shared(y), self.shared(y if self.same else y * 2)


@pytest.mark.parametrize("same", [True, False])
def test_shared_weights(same: bool) -> None:
    model = made(Twice(same))
    cut(model[0].first, 1)
    done = repaired(model, ROW)
    assert [each.reason for each in done.left] == ([] if same else [DIFFERENT])
    assert done.folded == (5 if same else 0)


def test_a_bias_that_others_use_is_not_changed() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 5)
            self.b.bias = self.a.bias

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.b(torch.relu(self.a(torch.sigmoid(self.first(x)))))
            return y

    model = made(Tied())
    cut(model[0].first, 1)
    assert [(each.layer, each.reason) for each in repaired(model, ROW).left] == [("0.a", bias_slots.SHARED)]


def test_masks_change_with_their_weights() -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    cut(model[0], 1)
    for layer in (model[0], model[2]):
        prune.random_unstructured(layer, "weight", 0.3)  # type: ignore[no-untyped-call]
    model[0].weight_mask[1] = 0
    model(ROW)
    done = repaired(model, ROW)
    assert done.folded > 0
    assert not done.left
    assert not model[2].weight_mask[:, 1].any()
    assert torch.equal(model[2].weight, model[2].weight_orig * model[2].weight_mask)


def test_attention_with_pruning_hooks() -> None:
    attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = made(attention, density=0.3)
    prune.random_unstructured(attention.self_attn.out_proj, "weight", 0.3)  # type: ignore[no-untyped-call]
    repaired(model, torch.zeros(1, 5, 8, dtype=torch.float64))


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_weights_that_a_norm_depends_on_stay(wrap: Callable[[nn.Module], nn.Module]) -> None:
    """Weights of a dead neuron change the norm of the others, so they are active."""
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    cut(model[0], 1)
    wrap(model[2])
    before = [parameter.clone() for parameter in model[2].parameters()]
    assert not repaired(model, ROW).left
    assert all(torch.equal(a, b) for a, b in zip(before, model[2].parameters(), strict=True))


def test_a_dead_row_of_weight_norm_stays_because_a_row_of_zeros_has_no_direction() -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[4].weight[:, 1] = 0
    parametrizations.weight_norm(model[2])
    before = [parameter.clone() for parameter in model[2].parameters()]
    assert {each.reason for each in repaired(model, ROW).left} == {contributions.COMPUTED}
    assert all(torch.equal(a, b) for a, b in zip(before, model[2].parameters(), strict=True))


def test_recurrent_layers_keep_their_carriers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.lstm, self.head = nn.Linear(6, 5), nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.head(self.lstm(self.first(x))[0])
            return y

    model = made(Net())
    cut(model[0].first, 1)
    done = repaired(model, torch.zeros(1, 3, 6, dtype=torch.float64))
    assert [(each.layer, each.reason) for each in done.left] == [("0.lstm.weight_ih_l0", NOT_FOLLOWED)]


def test_dead_channels_lose_their_parameters() -> None:
    model = made(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 4, 1))
    with torch.no_grad():
        model[3].weight[:, 2] = 0
    done = repaired(model, IMAGE)
    assert done.zeroed == {"0.bias": 1, "1.weight": 1, "1.bias": 1, "1.running_mean": 1}
    assert float(model[1].running_var[2]) > 0
    assert done.removed == 27


def test_a_shift_after_a_zero_scale_is_read() -> None:
    model = made(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Conv2d(5, 4, 3, padding=1))
    with torch.no_grad():
        model[1].weight[2] = 0
        model[1].bias[2] = 0.3
    done = repaired(model, IMAGE)
    assert "1.bias" not in done.zeroed
    assert [each.connections for each in done.left] == [36]


def test_a_model_in_training_stays_in_training() -> None:
    model = made(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 4)).train()
    cut(model[0], 1)
    steps = model[1].num_batches_tracked.clone()
    assert repair(model, ROW).removed > 0
    assert all(module.training for module in model.modules())
    assert torch.equal(model[1].num_batches_tracked, steps)


def test_a_model_whose_outputs_differ_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False), nn.Linear(4, 2))
    cut(model[0], 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def add_wrong_biases(model: nn.Module, biases: list[tuple[BiasSlot, Any]]) -> list[str]:
        return add_biases(model, [(slot, amount + 1) for slot, amount in biases])

    monkeypatch.setattr(torch_model, "add_biases", add_wrong_biases)
    with pytest.raises(ChangedError, match="more than rounding"):
        repair(model, ROW)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_a_second_repair_changes_nothing() -> None:
    model = made(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1), density=0.1
    )
    repaired(model, IMAGE)
    again = repair(model, IMAGE)
    assert (again.removed, again.result.folded, again.result.rounds, again.result.difference) == (0, 0, 0, 0.0)
