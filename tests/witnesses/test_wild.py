"""Witness 3 on networks as people write them: no inactive weight changes the output."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.witnesses.modules import Case, shape_after
from tests.witnesses.pruning import prune, randomize
from tests.witnesses.test_perturbation import examine
from tests.witnesses.torch_functions import FUNCTIONS, Apply
from tests.witnesses.wild import WILD, Draw, reals

Record = Callable[[str, object], None]


def prune_and_examine(name: str, make: Callable[[], nn.Module], draw: Draw, record: Record) -> None:
    """Prune one network several times, sparsely enough that much of it is inactive."""
    seen: Counter[str] = Counter()
    for seed in range(3):
        torch.manual_seed(seed)
        model = make().double().eval()
        randomize(model)
        prune(model, random.Random(f"{name} {seed}"), densities=(0.2, 0.3, 0.4))
        source = torch.Generator().manual_seed(seed)
        examine(Case(seed, model, lambda source=source: draw(source), smooth=False), seen)  # type: ignore[misc]
    for what, n in seen.items():
        record(f"witness: 3 perturbation, {what}", n)


@pytest.mark.parametrize("name", WILD)
def test_inactive_weights_have_no_effect(name: str, record_property: Record) -> None:
    prune_and_examine(name, *WILD[name], record_property)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inactive_weights_have_no_effect_around_an_operator(name: str, record_property: Record) -> None:
    def make() -> nn.Module:
        before = nn.Sequential(nn.Linear(4, 4), Apply(name))
        return nn.Sequential(before, nn.Linear(shape_after(before, (1, 3, 4))[-1], 2))

    prune_and_examine(name, make, reals(1, 3, 4), record_property)
