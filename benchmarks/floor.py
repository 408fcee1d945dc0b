"""The minimum for any sparsity count: `np.count_nonzero` over the same weights, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch


def floor(weights: Sequence[torch.Tensor]) -> Callable[[], int]:
    """Return the count as a function. numpy has no bfloat16, so its bits are counted as integers of the same width."""
    arrays = [(w.view(torch.int16) if w.dtype == torch.bfloat16 else w).detach().numpy() for w in weights]
    return lambda: sum(int(np.count_nonzero(array)) for array in arrays)
