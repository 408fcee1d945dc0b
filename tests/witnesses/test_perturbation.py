"""Witness 3: on generated torch networks, large changes of inactive weights (except bias carriers) do not change the
real output by one bit, and changes of active weights do."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import pytest
import torch
from torch import Tensor, nn

from effsparse_cli.paths.edges import Edges
from tests.witnesses.measured import measure
from tests.witnesses.modules import Case, make

Record = Callable[[str, object], None]
QUICK, LONG = 40, 500
SINGLES = 10
MOVING = 0.9
"""The share of active weights of smooth networks that must change the output when changed alone. Not all do, because
activity is about paths, and values may saturate or cancel."""


def answers(model: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        return [model(x) for x in inputs]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def chosen(found: Mapping[str, Edges], masks: Callable[[Edges], Tensor]) -> list[tuple[str, int]]:
    """Return (weight, flat position) of every connection for which a mask is True."""
    return [(name, int(i)) for name, edges in found.items() for i in masks(edges).reshape(-1).nonzero()]


def harmless(edges: Edges) -> Tensor:
    """Kept, inactive and not a bias carrier: a change must not change the output."""
    return torch.tensor(edges.mask("kept")) & ~active(edges) & ~carrier(edges)


def active(edges: Edges) -> Tensor:
    return torch.tensor(edges.mask("active"))


def carrier(edges: Edges) -> Tensor:
    return torch.tensor(edges.mask("carrier"))


class Change:
    """Add to chosen weights inside a `with` block, where they are stored: below a mask, if there is one."""

    def __init__(self, model: nn.Module, where: list[tuple[str, int]], amounts: Callable[[], float]) -> None:
        self.stored = dict(model.named_parameters(remove_duplicate=False))
        self.where, self.amounts = where, amounts

    def __enter__(self) -> None:
        self.before = {name: self.stored[name].detach().clone() for name, _ in self.where}
        for name, i in self.where:
            self.stored[name].data.view(-1)[i] += self.amounts()

    def __exit__(self, *_: object) -> None:
        for name, value in self.before.items():
            self.stored[name].data.copy_(value)


def examine(case: Case, seen: Counter[str]) -> None:
    dice = random.Random(case.seed)
    inputs = [case.draw_input() for _ in range(4)]
    found = measure(case.model, inputs[0])
    before = answers(case.model, inputs)
    idle = chosen(found, harmless)
    for group in [idle, *([one] for one in dice.sample(idle, min(SINGLES, len(idle))))]:
        with Change(case.model, group, lambda: dice.choice([-1, 1]) * dice.uniform(10, 1000)):
            assert same(before, answers(case.model, inputs)), f"seed {case.seed}: unsound at {group[:5]}"
    for what, those in (("active", chosen(found, active)), ("bias carriers", chosen(found, carrier))):
        for one in dice.sample(those, min(SINGLES, len(those))):
            with Change(case.model, [one], lambda: dice.choice([-1, 1]) * dice.uniform(0.3, 0.6)):
                moved = not same(before, answers(case.model, inputs))
            kind = "smooth" if case.smooth else "other"
            seen[f"{what} changed singly, {kind} networks"] += 1
            seen[f"{what} that moved the output, {kind} networks"] += moved
    seen["networks"] += 1
    seen["inactive changed"] += len(idle)


def against_perturbation(seeds: Iterable[int], record: Record) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        examine(make(seed, plain=seed % 4 == 1), seen)
    for what, n in seen.items():
        record(f"witness: 3 perturbation, {what}", n)
    tried, moved = (seen[f"active {what}, smooth networks"] for what in ("changed singly", "that moved the output"))
    assert moved >= MOVING * tried > 0, f"only {moved} of {tried} active connections move the output"


@pytest.mark.parametrize("block", range(4))
def test_inactive_weights_have_no_effect_and_active_ones_do(block: int, record_property: Record) -> None:
    against_perturbation(range(block * QUICK, (block + 1) * QUICK), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20, 24))
def test_inactive_weights_have_no_effect_at_length(block: int, record_property: Record) -> None:
    against_perturbation(range(block * LONG, (block + 1) * LONG), record_property)
