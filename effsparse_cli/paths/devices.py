"""The device of a torch engine: find it by name, send arrays to it, and read results back.

Every transfer goes through `send` and `fetch`, so that no tensor is left on the CPU by mistake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from effsparse_cli.errors import UsageError


def find_device(name: str, dtype: torch.dtype, option: str = "--device") -> torch.device:
    """Allocate on the device once, so that a missing one gives a clear error instead of a torch traceback."""
    try:
        return torch.empty(1, dtype=dtype, device=torch.device(name)).device
    except (AssertionError, RuntimeError, TypeError, NotImplementedError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UsageError(f"{option} {name} cannot be used here: {reason}. Use cpu instead.") from None


def send(array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array to the device."""
    return torch.tensor(array).to(device, dtype)


def fetch(tensor: Tensor) -> NDArray[Any]:
    """Read a tensor back: the only place where a pass waits for the device."""
    return np.asarray(tensor.cpu().numpy())
