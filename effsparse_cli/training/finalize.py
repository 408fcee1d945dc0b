"""Turn masks of a live module into plain dense parameters, and end its training with them."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from effsparse_cli.formats.torch.remove_masks import remove_masks
from effsparse_cli.training.hold import release_layers

Model = TypeVar("Model", bound=nn.Module)


def finalize(model: Model) -> Model:
    """Turn the masks of a live module into zeros of plain dense parameters, in place, and return it.

    That concerns the masks that `remove_masks` removes, and held masks, which are released. Outputs do not change, and
    parameters stay the same objects, so optimizers keep working.
    """
    release_layers(model)
    remove_masks(model)
    return model
