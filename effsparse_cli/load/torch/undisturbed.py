"""Keeps a live model as it was while it is traced: modes, attributes, buffers, random state, and nothing
printed."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import torch
from torch import nn


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """In evaluation mode inside, as found afterwards. Modes are set directly: a module's own train() may do
    more than that, and pruning hooks and recurrent layers assign attributes whenever they run."""
    modules = list(model.modules())
    before = [dict(module.__dict__) for module in modules]
    contents = [{k: v.copy() for k, v in d.items() if isinstance(v, dict | list)} for d in before]
    try:
        for module in modules:
            module.training = False
        with torch.random.fork_rng(devices=_cuda_devices(model)), torch.no_grad():
            yield
    finally:
        for module, attributes, held in zip(modules, before, contents, strict=True):
            module.__dict__.clear()
            module.__dict__.update(attributes)
            for name, content in held.items():
                container = attributes[name]
                container.clear()
                container.update(content) if isinstance(content, dict) else container.extend(content)


@contextlib.contextmanager
def same_buffers(model: nn.Module) -> Iterator[None]:
    """For a real run: buffers that it writes to get their values back."""
    before = [(buffer, buffer.clone(), buffer._version) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, values, version in before:
                if buffer._version != version:
                    buffer.copy_(values)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Failing exports print a lot, on both streams and through the loggers."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


@contextlib.contextmanager
def plain_kernels() -> Iterator[None]:
    """Fused kernels hide the operators that they are made of."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _cuda_devices(model: nn.Module) -> list[int]:
    return sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
