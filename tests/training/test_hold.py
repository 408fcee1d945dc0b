"""Held weights stay zero whatever trains or loads the model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from effsparse_cli.training.hold import hold
from tests.training.finetuning import (
    ADAMW,
    INPUTS,
    SGD,
    STEPS,
    Optimize,
    assert_held,
    network,
    nonzero,
    prune_to_zeros,
    train,
)


@pytest.mark.parametrize("optimize", [SGD, ADAMW], ids=["sgd", "adamw"])
def test_pruned_weights_stay_zero(optimize: Optimize) -> None:
    model = network()
    optimizer = optimize(model)
    train(model, optimizer, 5)
    pruned = prune_to_zeros(model)
    released = copy.deepcopy(model)
    hold(model, pruned)
    before = [each.clone() for each in model.parameters()]
    train(model, optimizer, STEPS)
    assert_held(model, pruned.totals.kept)
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    train(released, optimize(released), 1)  # without a hold, one step revives them
    assert sum(nonzero(released)) > pruned.totals.kept


@pytest.mark.parametrize("wrapped_first", [True, False])
def test_compiled_models(wrapped_first: bool) -> None:
    model = network()
    optimizer = SGD(model)
    train(model, optimizer, 5)
    pruned = prune_to_zeros(model)
    torch._dynamo.reset()
    compiled: Any = torch.compile(model, backend="aot_eager") if wrapped_first else None
    hold(compiled if wrapped_first else model, pruned)
    compiled = compiled or torch.compile(model, backend="aot_eager")
    train(compiled, optimizer, STEPS)
    assert_held(model, pruned.totals.kept)
    assert all(name.startswith("_orig_mod.") for name in compiled.state_dict())


def test_compiled_steps() -> None:
    model = network()
    optimizer = SGD(model)
    train(model, optimizer, 5)
    pruned = prune_to_zeros(model)
    hold(model, pruned)
    torch._dynamo.reset()
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(3):
        step()
    assert sum(nonzero(model)) == pruned.totals.kept


def run_process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    for order in ("wrap, hold", "hold, wrap"):
        train_in_parallel(order, rank, folder)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train_in_parallel(order: str, rank: int, folder: str) -> None:
    """In a function of its own, because modules that outlive the process group keep its threads: their end can then
    hang or abort the process."""
    masks = torch.load(f"{folder}/masks.pt")
    model = network()
    optimizer = SGD(model)
    parallel = DistributedDataParallel(model) if order == "wrap, hold" else None
    train(parallel or model, optimizer, 5)
    hold(parallel or model, masks)
    parallel = parallel or DistributedDataParallel(model)
    train(parallel, optimizer, STEPS, seed=rank)
    torch.save(model.state_dict(), f"{folder}/{order} {rank}.pt")


def test_two_distributed_processes(tmp_path: Path) -> None:
    model = network()
    pruned = prune_to_zeros(model)
    torch.save({name: torch.from_numpy(mask) for name, mask in pruned.masks.items()}, tmp_path / "masks.pt")
    spawn(run_process, (str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    for order in ("wrap, hold", "hold, wrap"):
        first, second = (torch.load(tmp_path / f"{order} {rank}.pt") for rank in range(2))
        assert all(torch.equal(first[name], second[name]) for name in first)
        model.load_state_dict(first)
        assert_held(model, pruned.totals.kept)


@pytest.mark.parametrize("assign", [False, True])
def test_loading_a_state_dict(assign: bool) -> None:
    model, dense = network(), network()
    pruned = prune_to_zeros(model)
    keys = list(model.state_dict())
    hold(model, pruned)
    assert list(model.state_dict()) == keys
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    assert sum(nonzero(model)) == pruned.totals.kept
    model.load_state_dict(copy.deepcopy(dense.state_dict()), assign=assign)
    assert sum(nonzero(model)) == pruned.totals.kept
    model[0].load_state_dict(copy.deepcopy(dense[0].state_dict()))
    train(model, SGD(model), 3)
    assert sum(nonzero(model)) == pruned.totals.kept
    assert not model[0].weight.grad[~torch.from_numpy(pruned.masks["0"])].any()


def test_gradients_of_pruned_weights_are_zero() -> None:
    """Accumulated or not, so that clipping sees the norm of what is trained."""
    model = network()
    pruned = prune_to_zeros(model)
    model(torch.ones(2, INPUTS)).sum().backward()
    before: Any = [each.grad.clone() for each in model.parameters()]
    hold(model, pruned)
    gone = ~torch.from_numpy(pruned.masks["0"])
    assert not model[0].weight.grad[gone].any()
    model(torch.ones(2, INPUTS)).sum().backward()
    assert not model[0].weight.grad[gone].any()
    assert torch.equal(model[0].weight.grad[~gone], 2 * before[0][~gone])
    assert torch.equal(model[0].bias.grad, 2 * before[1])


def test_gradients_that_are_not_finite_become_zero() -> None:
    layer = nn.Linear(2, 1)
    hold(layer, {"weight": torch.tensor([[False, True]])})
    (layer(torch.tensor([[float("inf"), 1.0]])) * 1.0).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[0.0, 1.0]]


def test_sparse_gradients() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    hold(table, {"weight": torch.tensor([[0, 1]] * 4)})
    optimizer = torch.optim.SGD(table.parameters(), 0.1)
    table(torch.tensor([1, 1, 2])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.to_dense().tolist() == [[0, 0], [0, 2], [0, 1], [0, 0]]
    optimizer.step()
    assert table.weight.count_nonzero() == 4


def test_frozen_parameters_are_held_when_they_are_trained_again() -> None:
    model = network().requires_grad_(False)
    pruned = prune_to_zeros(model)
    hold(model, pruned)
    model.requires_grad_(True)
    train(model, SGD(model), 3)
    assert sum(nonzero(model)) == pruned.totals.kept
    train(model, SGD(model), 1)
    assert not model[0].weight.grad[~torch.from_numpy(pruned.masks["0"])].any()


def test_other_dtypes() -> None:
    model = network()
    optimizer = SGD(model)
    train(model, optimizer, 5)
    pruned = prune_to_zeros(model)
    hold(model, pruned)
    model.bfloat16().float()
    train(model, optimizer, 3)
    assert sum(nonzero(model)) == pruned.totals.kept


def test_only_the_optimizer_that_stepped_matters() -> None:
    """A step between forward and backward of another model would otherwise change tensors that backward needs."""
    held, other = network(), network()
    hold(held, prune_to_zeros(held))
    loss = held(torch.ones(1, INPUTS, requires_grad=True)).sum()
    train(other, SGD(other), 1)
    loss.backward()
