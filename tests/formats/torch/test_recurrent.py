"""Recurrent layers and cells in every form, compared with the real module."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn

from tests.formats.torch.cases import Case, L, r
from tests.formats.torch.functional import Functional
from tests.formats.torch.perturbed import idle_weights_do_nothing, moving_share, thin

FORMS: dict[str, Callable[[type], Case]] = {
    "batch first": lambda kind: (
        Functional(lambda m, x: m.o(m.l(x)[0]), l=kind(6, 5, batch_first=True), o=L(5, 3)),
        (r(1, 4, 6),),
    ),
    "two layers, both directions": lambda kind: (
        Functional(lambda m, x: m.o(m.l(x)[0]), l=kind(6, 5, num_layers=2, bidirectional=True), o=L(10, 3)),
        (r(4, 2, 6),),
    ),
    "final states, no bias": lambda kind: (Functional(lambda m, x: m.l(x)[1], l=kind(6, 5, bias=False)), (r(4, 2, 6),)),
    "unbatched": lambda kind: (kind(6, 5), (r(4, 6),)),
}
OTHERS: dict[str, Callable[[], Case]] = {
    "projected": lambda: (
        Functional(lambda m, x: m.o(m.l(x)[0][-1]), l=nn.LSTM(6, 5, proj_size=3, num_layers=2), o=L(3, 3)),
        (r(4, 2, 6),),
    ),
    "lstm with states": lambda: (
        Functional(lambda m, x, h, c: m.l(x, (h, c))[1][0], l=nn.LSTM(6, 5)),
        (r(4, 2, 6), r(1, 2, 5), r(1, 2, 5)),
    ),
    "gru with a state": lambda: (Functional(lambda m, x, h: m.l(x, h)[0], l=nn.GRU(6, 5)), (r(4, 2, 6), r(1, 2, 5))),
    "lstm cell": lambda: (nn.LSTMCell(6, 5), (r(2, 6),)),
    "gru cell": lambda: (nn.GRUCell(6, 5), (r(2, 6),)),
    "rnn cell": lambda: (nn.RNNCell(6, 5), (r(2, 6),)),
}
ALL: dict[str, Callable[[], Case]] = OTHERS | {
    f"{kind.__name__}, {name}": lambda kind=kind, make=make: make(kind)
    for kind in (nn.LSTM, nn.GRU, nn.RNN)
    for name, make in FORMS.items()
}


@pytest.mark.parametrize("name", ALL)
def test_inactive_weights_change_nothing(name: str) -> None:
    model, inputs = ALL[name]()
    for seed, density in enumerate((0.3, 0.5, 0.15)):
        thin(model, density, seed)
        idle_weights_do_nothing(model, inputs)


@pytest.mark.parametrize("name", ALL)
def test_active_weights_change_something(name: str) -> None:
    model, inputs = ALL[name]()
    model.double()
    thin(model, 0.5, seed=3)
    assert moving_share(model, tuple(x.double() for x in inputs), tries=12) == 1.0
