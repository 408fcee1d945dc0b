"""The device that a torch engine runs on: its name in, the device out, tried once, so that an absent one is a clear
error and not a torch traceback."""

from __future__ import annotations

import torch

from effsparse_cli.errors import UsageError


def find_device(name: str, dtype: torch.dtype) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, dtype=dtype, device=device)
    except (AssertionError, RuntimeError, TypeError, NotImplementedError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UsageError(f"--device {name} cannot be used here: {reason}. --device cpu always can") from None
    return device
