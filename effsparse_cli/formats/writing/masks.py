"""Write masks by weight name to one file, .safetensors or .npz by its suffix."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import replacing

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph
    from effsparse_cli.graph.primitives import Bools


def _safetensors(masks: Mapping[str, Bools], path: Path) -> None:
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.ascontiguousarray(mask) for name, mask in masks.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def _npz(masks: Mapping[str, Bools], path: Path) -> None:
    """Write like np.savez_compressed, but allow any name as key and write equal bytes for equal masks."""
    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, mask in masks.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(mask, dtype=bool))


WRITERS: dict[str, Callable[[Mapping[str, Bools], Path], None]] = {".safetensors": _safetensors, ".npz": _npz}


def check_suffix(path: Path, option: str) -> None:
    if path.suffix not in WRITERS:
        raise UsageError(f"{option} {path}: masks are written to {' or '.join(WRITERS)} files, by suffix.")


def by_parameter(masks: Mapping[str, Bools], graph: Graph) -> dict[str, Bools]:
    """Return masks by the weight's key in a plain state_dict.

    A weight stored as `fc1.weight_orig` or in a parametrization gets the key that it has without: `fc1.weight`.
    """
    keys = {name: graph.layers[name].parameter or name for name in masks}
    taken = Counter(keys.values())
    return {key if taken[key := keys[name]] == 1 else name: mask for name, mask in masks.items()}


def write_masks(masks: Mapping[str, Bools], path: Path) -> None:
    with replacing(path) as temporary:
        WRITERS[path.suffix](masks, temporary)
