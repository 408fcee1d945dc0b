"""A simulated GPU: fake tensors on `cuda` that carry their values on the CPU.

Torch's fake tensors check devices as a real GPU would, and refuse an operator whose tensors are on different devices.
They have no values, so each operator also runs on the CPU, and `fetch` reads its result from there. A pass therefore
takes the branches that it would take on a GPU, and its results can be compared with those of the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from effsparse_cli.paths import devices

UPLOADS = ("aten::lift_fresh", "aten::_to_copy")
"""Operators that copy an array to the device. Only these may see a tensor on the CPU."""

READ = "aten::_local_scalar_dense"
CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward")
"""For some of these a fake tensor asks the GPU which kernel it would choose. Their devices are checked here."""


class LeftOnCpuError(AssertionError):
    """An operator gave, or got, a tensor on the CPU."""


class Shadowed(TorchDispatchMode):
    """Runs each operator twice: on fake tensors, which checks devices, and on the CPU, which gives values. `strict`
    also refuses every tensor on the CPU. A tensor without values, of a tracer's own, stays without."""

    def __init__(self, fake: FakeTensorMode, strict: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake, self.strict = fake, strict

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        name = func._schema.name
        fake = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, FakeTensor)]
        unknown = any(not hasattr(tensor, "shadow") for tensor in fake)
        if func.namespace == "prim" or unknown or not (fake or self.strict):
            return func(*args, **given)
        fakes = tree_map_only(Tensor, self._known, (args, given))
        with _disable_current_modes():
            real_args, real_given = tree_map(_on_cpu, fakes)
            real = func(*real_args, **real_given)
        if name == READ:
            return real
        result = _like(real, _one_device(fakes)) if name in CONVOLUTIONS else func(*fakes[0], **fakes[1])
        shadow(result, real)
        if self.strict and name not in UPLOADS:
            tree_map_only(Tensor, lambda x: _refuse_cpu(name, x), (fakes, result))
        return result

    def _known(self, tensor: Tensor) -> Tensor:
        """A fake tensor for each plain one, which can only be an array that was just read."""
        if isinstance(tensor, FakeTensor):
            return tensor
        with _disable_current_modes():
            known = self.fake.from_tensor(tensor)
        shadow(known, tensor)
        return known


def shadow(result: Any, real: Any) -> None:
    """Gives each fake result its values."""
    if isinstance(result, Tensor):
        result.shadow = real  # type: ignore[attr-defined]
    elif isinstance(result, list | tuple):
        for one, its in zip(result, real, strict=True):
            shadow(one, its)


def _values(tensor: Tensor) -> Tensor:
    values: Tensor = tensor.shadow  # type: ignore[attr-defined]
    return values


def _one_device(fakes: Any) -> torch.device:
    found = {leaf.device for leaf in tree_leaves(fakes) if isinstance(leaf, Tensor)}
    if len(found) > 1:
        raise RuntimeError(f"Expected all tensors to be on the same device, but found {found}")
    return found.pop()


def _like(real: Any, device: torch.device) -> Any:
    return tree_map_only(Tensor, lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device), real)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return _values(value)
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value


def _refuse_cpu(name: str, tensor: Tensor) -> None:
    if tensor.device.type == "cpu":
        raise LeftOnCpuError(f"{name} has a tensor of shape {tuple(tensor.shape)} on the CPU")


def _fetch(tensor: Tensor) -> NDArray[Any]:
    assert tensor.device.type == "cuda", f"read back from {tensor.device}"
    with _disable_current_modes():
        return _values(tensor).numpy().copy()


@contextmanager
def simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors on `cuda` work in here; values are read back by `devices.fetch` alone."""
    fake = FakeTensorMode()
    with fake, Shadowed(fake, strict=True):
        monkeypatch.setattr(devices, "fetch", _fetch)
        yield


@contextmanager
def simulated_gpu_module(model: nn.Module, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tensor]:
    """A module whose tensors are on `cuda`, and its input there; their values are read by `Tensor.cpu` and `.item`."""
    fake = FakeTensorMode()

    def moved(tensor: Tensor) -> Tensor:
        with fake:
            there = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda:0")
        if isinstance(tensor, nn.Parameter):
            there = nn.Parameter(there, requires_grad=False)  # autograd would ask the GPU for a stream
        shadow(there, tensor.detach())
        return there

    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for table in tables:
            table.update({name: moved(tensor) for name, tensor in table.items() if tensor is not None})
    cpu, fork_rng = Tensor.cpu, torch.random.fork_rng
    monkeypatch.setattr(Tensor, "cpu", lambda self: _values(self) if isinstance(self, FakeTensor) else cpu(self))
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: fork_rng(devices=[]))
    with Shadowed(fake, strict=False):
        yield moved(x)
