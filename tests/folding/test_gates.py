"""Gates that only a repair finds closed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.folding.trained import repaired_behind_gates


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.gate, self.last = (nn.Linear(2, 2) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(torch.relu(self.first(x))) * torch.sigmoid(self.gate(x)))  # type: ignore[no-any-return]


def test_a_constant_that_a_relu_cuts_off_does_not_open_a_gate() -> None:
    """Paths alone do not show that the second channel is always zero. Once its carrier is removed they do, and what its
    gate let through is inactive too."""
    torch.manual_seed(0)
    model = Gated().double()
    with torch.no_grad():
        model.first.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
        model.first.bias.copy_(torch.tensor([0.5, -1.0]))
        model.second.weight.copy_(torch.eye(2))
        model.second.bias.zero_()
    done = repaired_behind_gates(model, torch.zeros(1, 2, dtype=torch.float64))
    assert done.left == ()
    assert done.before.totals.active - done.after.totals.active == 4
    assert not model.gate.weight[1].any()
    assert not model.last.weight[:, 1].any()
