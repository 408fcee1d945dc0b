"""Constants are computed only by pure operators, and only if the cost is known to be within the budget."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from effsparse_cli.errors import LoadError
from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.formats.torch.constants import evaluate as budgets
from effsparse_cli.formats.torch.constants.evaluate import Budget, may_evaluate, result_size, run

aten = torch.ops.aten
W = torch.ones(4, 4)
PURE: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.add.Tensor, (W, W)),
    (aten.add_.Tensor, (W, W)),
    (aten.dropout.default, (W, 0.5, False)),
    (aten.einsum.default, ("ij,jk->ik", [W, W])),
    (aten.div.Tensor_mode, (W, W)),
    (aten.ones.default, ([3],)),
]
IMPURE: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.from_file.default, ("file", True, 4)),
    (aten._print.default, ("text",)),
    (aten._sparse_csr_tensor_unsafe.default, (W, W, W, [1, 1])),
    (aten.rand.default, ([3],)),
    (aten.bernoulli.default, (W,)),
    (aten.dropout.default, (W, 0.5, True)),
    (aten.normal_.default, (W,)),
    (aten.add.out, (W, W)),
    (aten._index_put_impl_.default, (W, [W], W, False, True)),
    (aten.resize_.default, (W, [100])),
    (aten.set_.source_Tensor, (W, W)),
]


@pytest.mark.parametrize(("target", "args"), PURE, ids=str)
def test_pure_operators_may_be_evaluated(target: Any, args: tuple[Any, ...]) -> None:
    assert may_evaluate(target, args, {})


@pytest.mark.parametrize(("target", "args"), IMPURE, ids=str)
def test_other_operators_may_not_be_evaluated(target: Any, args: tuple[Any, ...]) -> None:
    assert not may_evaluate(target, args, {})


WIDE = torch.ones(()).expand(10**6, 10**6)
EXPENSIVE: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.ones.default, ([4 * 10**9],)),
    (aten.arange.default, (10**12,)),
    (aten.clone.default, (WIDE,)),
    (aten.sum.default, (WIDE,)),
    (aten.repeat.default, (W, [10**6, 10**6])),
    (aten.kron.default, (WIDE[0], WIDE[0])),
    (aten.mm.default, (WIDE[:, :1], WIDE[:1])),
    (aten.einsum.default, ("ij,jk->ik", [WIDE, WIDE])),
    (aten.one_hot.default, (torch.zeros(1, dtype=torch.int64), 10**12)),
    (aten.constant_pad_nd.default, (W, [10**12, 0])),
    (aten.upsample_nearest2d.default, (W[None, None], [10**6, 10**6])),
    (aten.unbind.int, (WIDE,)),
    (aten.repeat_interleave.Tensor, (torch.tensor([10**12]),)),
]


@pytest.mark.parametrize(("target", "args"), EXPENSIVE, ids=lambda value: str(value)[:40])
def test_expensive_calls_are_refused_before_they_are_made(target: Any, args: tuple[Any, ...]) -> None:
    with pytest.raises(LoadError, match=r"too much|too many"):
        run(target, args, {}, Budget())


def test_freed_constants_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "BYTES", 20_000)
    budget = Budget()
    for _ in range(20):
        run(aten.ones.default, ([1000],), {}, budget)
    held = [run(aten.ones.default, ([1000],), {}, budget) for _ in range(3)]
    with pytest.raises(LoadError, match="too much memory"):
        held += [run(aten.ones.default, ([1000],), {}, budget) for _ in range(10)]


def test_result_sizes_are_upper_bounds() -> None:
    x, index = torch.randn(3, 4, 5), torch.zeros(2, 6, dtype=torch.int64)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (aten.matmul.default, {"self": x, "other": torch.randn(3, 5, 7)}),
        (aten.matmul.default, {"self": x, "other": torch.randn(5)}),
        (aten.matmul.default, {"self": torch.randn(5), "other": torch.randn(3, 5, 7)}),
        (aten.linear.default, {"input": x, "weight": torch.randn(9, 5)}),
        (aten.addmm.default, {"self": torch.ones(7), "mat1": torch.ones(3, 5), "mat2": torch.ones(5, 7)}),
        (aten.index.Tensor, {"self": x, "indices": [None, index, index]}),
        (aten.index.Tensor, {"self": x, "indices": [index, None, index[:1]]}),
        (aten.index.Tensor, {"self": x, "indices": [x[..., 0] > 0]}),
        (aten.gather.default, {"self": x[0], "dim": 0, "index": index[:, :5]}),
        (aten.index_select.default, {"self": x, "dim": 1, "index": index[0]}),
        (aten.embedding.default, {"weight": x[0], "indices": index}),
        (aten.constant_pad_nd.default, {"self": x, "pad": [1, 2, 3, 4], "value": 0}),
        (aten.repeat.default, {"self": x, "repeats": [2, 1, 3, 1]}),
        (aten.outer.default, {"self": x[0, 0], "vec2": x[0, 1]}),
        (aten.cat.default, {"tensors": [x, x], "dim": 1}),
        (aten.arange.start_step, {"start": 3, "end": 20, "step": 4}),
        (aten.where.self, {"condition": x > 0, "self": x, "other": torch.zeros(7, 1, 1, 5)}),
        (aten.topk.default, {"self": x, "k": 4}),
        (aten.diff.default, {"self": x}),
    ]
    for target, given in calls:
        tensors = [leaf for value in given.values() for leaf in (value if isinstance(value, list) else [value])]
        bound = result_size(target, given, [leaf for leaf in tensors if isinstance(leaf, torch.Tensor)])
        made = target(**given)
        assert bound is not None, target
        assert bound >= sum(t.numel() for t in (made if isinstance(made, tuple | list) else [made])), target


def test_random_constants_are_opaque() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.fc(x) * torch.rand(4)
            return y

    graph = from_module(Noisy(), (torch.zeros(1, 4),), None, LoadOptions())
    assert [type(node.op).__name__ for node in graph.nodes].count("Opaque") == 1
