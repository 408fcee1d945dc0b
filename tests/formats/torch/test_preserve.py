"""A live model and its arguments are preserved exactly, whatever the model does while it is traced, even if tracing
fails."""

from __future__ import annotations

import contextlib
import random
from collections import OrderedDict, UserDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from effsparse_cli import analyze
from effsparse_cli.errors import EffsparseError
from effsparse_cli.formats.torch.tracing.preserve import preserved_state, preserved_values
from effsparse_cli.formats.torch.tracing.snapshot import Snapshot
from tests.formats.torch.functional import Functional


class FrozenDict(OrderedDict[str, Any]):
    """Like the configuration of a diffusers model: it can be cleared, but not filled."""

    def __setitem__(self, key: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise TypeError("frozen")
        super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("frozen")

    def freeze(self) -> FrozenDict:
        self._frozen = True
        return self


class Watched(list[Any]):
    """A list that reacts to changes, and whose copy is not a list."""

    calls = 0

    def clear(self) -> None:
        self.calls += 1
        super().clear()

    def extend(self, values: Any) -> None:
        self.calls += 1
        super().extend(values)

    def copy(self) -> Any:
        return tuple(self)


class Slotted:
    __slots__ = ("held", "missing")

    def __init__(self) -> None:
        self.held: list[int] = [1]


class Odd(nn.Linear):
    """Holds every kind of container."""

    def __init__(self) -> None:
        super().__init__(3, 3)
        self.config = FrozenDict(size=3, kinds=["a"]).freeze()
        self.watched = Watched([1, 2])
        self.ordered = OrderedDict(a=1, b=2)
        self.recent = deque([1, 2], maxlen=2)
        self.names = {"a"}
        self.nested: dict[str, Any] = {"cache": {"keys": [1]}, "pair": ([1], {2})}
        self.user = UserDict(a=[1])
        self.slotted = Slotted()
        self.space = SimpleNamespace(calls=[], last=None)
        self.hidden = [nn.BatchNorm1d(3)]
        self.cached = torch.zeros(3)
        self.gone = "there"


def disturb(m: Odd, x: Tensor) -> None:
    m.watched.append(x)
    OrderedDict.__setitem__(m.config, "added", x)
    m.ordered.move_to_end("a")
    m.recent.append(3)
    m.names.add("b")
    m.nested["cache"]["keys"].append(x)
    m.nested["pair"][0].append(x)
    m.nested["new"] = x
    m.user["b"] = x  # type: ignore[assignment]
    m.slotted.held = [2]
    m.slotted.missing = x  # type: ignore[attr-defined]
    m.space.calls.append(x)
    m.space.last = x
    m.hidden[0].training = False
    m.hidden.append(nn.ReLU())  # type: ignore[arg-type]
    m.cached = x
    m.added = x
    del m.gone
    m.weight.requires_grad_(False)
    m.bias.grad = None
    m.register_forward_hook(lambda *_: None)
    random.random()
    np.random.rand()
    torch.set_default_dtype(torch.float64)
    torch.set_autocast_enabled("cpu", True)


def state(m: Odd) -> Any:
    """Return everything that `disturb` changes, in a form that can be compared."""
    return (
        list(m.config.items()), list(m.watched), m.watched.calls, list(m.ordered.items()), list(m.recent), set(m.names),
        repr(m.nested), repr(m.user), m.slotted.held, hasattr(m.slotted, "missing"), repr(m.space),
        len(m.hidden), m.hidden[0].training, id(m.cached), sorted(vars(m)), [each.training for each in m.modules()],
        m.weight.requires_grad, id(m.bias.grad), len(m._forward_hooks), random.getstate(),
        np.random.get_state(legacy=False)["state"]["key"].tolist(), torch.get_rng_state().tolist(),
        torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(),
    )  # fmt: skip


def made(forward: Callable[[Any, Tensor], Any]) -> tuple[nn.Module, Odd]:
    odd = Odd()
    odd.bias.grad = torch.ones(3)
    model = Functional(lambda m, x: forward(m, x), odd=odd, dropout=nn.Dropout())
    odd.eval()
    return model.train(True), odd.eval()


@pytest.fixture(autouse=True)
def same_globals() -> Any:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_autocast_enabled("cpu", False)


def ends_well(m: Any, x: Tensor) -> Tensor:
    disturb(m.odd, x)
    return m.dropout(nn.functional.linear(x, m.odd.weight))  # type: ignore[no-any-return]


def fails(m: Any, x: Tensor) -> Tensor:
    disturb(m.odd, x)
    raise ValueError("of the model")


def is_interrupted(m: Any, x: Tensor) -> Tensor:
    disturb(m.odd, x)
    raise KeyboardInterrupt


@pytest.mark.parametrize("forward", [ends_well, fails, is_interrupted])
def test_every_kind_of_state_is_restored(forward: Callable[[Any, Tensor], Any]) -> None:
    model, odd = made(forward)
    before = state(odd)
    try:
        analyze(model, torch.ones(1, 3))
    except (EffsparseError, KeyboardInterrupt):
        assert forward is not ends_well
    assert state(odd) == before
    assert model.training


def test_a_frozen_dict_is_not_touched() -> None:
    """The configuration of a diffusers model must not come out empty."""
    model, odd = made(lambda m, x: m.odd(x))
    assert analyze(model, torch.ones(1, 3)).totals.active == 9
    assert dict(odd.config) == {"size": 3, "kinds": ["a"]}
    assert odd.watched.calls == 0


def test_values_that_a_run_overwrites_are_restored() -> None:
    """Parameters, gradients, buffers, attributes and the arguments themselves."""

    def writes(m: Any, x: Tensor) -> Tensor:
        for tensor in (m.odd.weight.data, m.odd.bias.grad, m.odd.cached, m.odd.hidden[0].running_mean[1:], x):
            tensor.add_(1)
        m.odd.weight.data = torch.zeros(2, 2)
        return x @ x.T

    model, odd = made(writes)
    x = torch.ones(1, 3)
    tensors = [odd.weight, odd.bias.grad, odd.cached, odd.hidden[0].running_mean, x]
    before = [each.detach().clone() for each in tensors if each is not None]
    with contextlib.suppress(KeyboardInterrupt), preserved_state(model, x), preserved_values(model, x):
        model(x)
        assert not torch.equal(odd.cached, before[2])
        raise KeyboardInterrupt
    assert all(torch.equal(each, old) for each, old in zip(tensors, before, strict=True) if each is not None)


def test_a_model_that_cannot_be_exported_does_not_change_its_argument() -> None:
    def branching(m: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        return m.odd(x) if x.sum() > 0 else x

    model, _ = made(branching)
    x = torch.ones(1, 3)
    assert analyze(model, x).totals.active == 9
    assert torch.equal(x, torch.ones(1, 3))


def test_objects_far_from_a_model_are_ignored() -> None:
    """A model may refer to its trainer, and threads of the standard library have state of their own."""
    import queue

    model: Any = nn.Linear(2, 2)
    model.jobs = queue.Queue()
    model.trainer = SimpleNamespace(loop=SimpleNamespace(data=SimpleNamespace(epoch=SimpleNamespace(far=[1]))))
    recorded = {id(container) for container, _, _ in Snapshot([model]).containers}
    assert id(model.trainer.loop.__dict__) in recorded
    assert id(model.jobs.queue) not in recorded
    assert id(model.trainer.loop.data.epoch.far) not in recorded


def test_diffusers_models_keep_their_configuration() -> None:
    diffusers = pytest.importorskip("diffusers")
    try:
        model = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"diffusers cannot be imported: {error}")
    before = dict(model.config)
    analyze(model, torch.ones(1, 3, 8, 8))
    assert dict(model.config) == before
