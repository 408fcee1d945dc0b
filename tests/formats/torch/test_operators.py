"""Every operator family, compared with the real module: inactive weights change nothing, nearly all active ones do."""

from __future__ import annotations

import pytest

from tests.formats.torch.cases import CASES
from tests.formats.torch.perturbed import idle_weights_do_nothing, moving_share, thin


@pytest.mark.parametrize("name", CASES)
def test_inactive_weights_change_nothing(name: str) -> None:
    model, inputs = CASES[name]()
    for seed, density in enumerate((0.3, 0.5, 0.15)):
        thin(model, density, seed)
        idle_weights_do_nothing(model, inputs)


# A live index may read anywhere, but this one reads two rows; a maximum comes from one position.
ROUGH = {"reading by a live index": 0.5, "max pooling": 0.6, "sorting": 0.9}


@pytest.mark.parametrize("name", CASES)
def test_active_weights_change_something(name: str) -> None:
    model, inputs = CASES[name]()
    model.double()
    thin(model, 0.5, seed=3)
    doubled = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    assert moving_share(model, doubled) >= ROUGH.get(name, 1.0)
