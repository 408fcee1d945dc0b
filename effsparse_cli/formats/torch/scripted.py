"""A TorchScript archive that the user trusts becomes a module that can be traced: the same tensors under the same
names, and the script's own code when it is called."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from effsparse_cli.formats.torch.tracing.preserve import quiet


def load_script(path: Path) -> nn.Module:
    """Runs code that is in the file."""
    with quiet():
        script: Any = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    return _mirror(script.eval())


def _mirror(script: Any) -> nn.Module:
    """A script has neither hooks nor a signature, which tracing needs; a plain module around it has both."""
    module = nn.Module()
    # A script's parameters are plain tensors, and the ones it computes with must be these very objects.
    for name, tensor in (*script.named_parameters(), *script.named_buffers()):
        path, _, own = name.rpartition(".")
        _inside(module, path).register_buffer(own, tensor)

    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_exporting():
            # A script knows its own tensors only, not those that an export puts in their place; a run is recorded.
            raise RuntimeError("TorchScript cannot be exported")
        return script(*args, **kwargs)

    given = [argument for argument in script.forward.schema.arguments if argument.name != "self"]
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                argument.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if argument.has_default_value() else inspect.Parameter.empty,
            )
            for argument in given
        ]
    )
    module.forward = forward
    return module.eval()


def _inside(module: nn.Module, path: str) -> nn.Module:
    for name in path.split(".") if path else ():
        if name not in module._modules:
            module.add_module(name, nn.Module())
        module = module.get_submodule(name)
    return module
