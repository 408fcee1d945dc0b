"""`hold`, `apply_masks` and `finalize`: masks of live modules in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import nn

    from effsparse_cli.training.hold import Hold
    from effsparse_cli.training.masks import MaskSource

Module = TypeVar("Module", bound="nn.Module")


def hold(model: nn.Module, masks: MaskSource | None = None) -> Hold:
    """Keep the pruned weights of a live module at zero during training, with any torch.optim optimizer.

    Momentum and weight decay would revive them otherwise. `masks` is as in `apply_masks`; by default, the masks that
    the model stores and its zeros are held. The state_dict does not change, and torch.compile and
    DistributedDataParallel work, whether they wrap the model before or after. The hold ends with `release()`, or with
    the `with` block that it opens.

    Examples:
        >>> holding = effsparse.hold(model, effsparse.prune(model, x, 0.9, form="zeros"))
        >>> train(model)
        >>> holding.release()
    """
    from effsparse_cli.training import hold as holding

    return holding.hold(model, masks)


def apply_masks(model: nn.Module, masks: MaskSource) -> None:
    """Set the pruned weights of a live module to zero once, in place.

    `masks` is a mapping of names to boolean tensors or arrays (True or 1 is kept), the result of `prune`, or the path
    of a mask file of any supported convention. Names are those of parameters in the state_dict (`fc.weight`), of
    layers (`fc`) or of masks (`fc.weight_mask`). Nothing is changed if a mask matches no parameter or has the wrong
    shape.

    Examples:
        >>> effsparse.apply_masks(model, "masks.safetensors")
    """
    from effsparse_cli.training import masks as applying

    applying.apply_masks(model, masks)


def finalize(model: Module) -> Module:
    """Turn the masks of a live module into zeros of plain dense parameters, in place, and return it.

    That concerns masks of torch.nn.utils.prune, parametrizations that are masks, and held masks, which are released.
    Outputs do not change, and parameters stay the same objects, so optimizers keep working.

    Examples:
        >>> torch.save(effsparse.finalize(model).state_dict(), "pruned.pt")
    """
    from effsparse_cli.training import finalize as finalizing

    return finalizing.finalize(model)
