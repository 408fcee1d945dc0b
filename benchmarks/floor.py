"""The least that any sparsity count must do: `np.count_nonzero` over the same weights, one tensor after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch


def floor(weights: Sequence[torch.Tensor]) -> Callable[[], int]:
    """numpy has no bfloat16: its bits are counted as whole numbers of the same width."""
    arrays = [(w.view(torch.int16) if w.dtype == torch.bfloat16 else w).detach().numpy() for w in weights]
    return lambda: sum(int(np.count_nonzero(array)) for array in arrays)
