"""Save an ONNX model in memory as one file, with external data only if one file cannot hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from effsparse_cli.formats.writing.atomic import Check, replacing

if TYPE_CHECKING:
    from onnx import ModelProto

MOST_BYTES = (1 << 31) - 1


def write_model(target: Path, model: ModelProto, check: Check | None = None, most_bytes: int = MOST_BYTES) -> None:
    """Write the model; `check` reads it before it gets its name."""
    if model.ByteSize() <= most_bytes:
        with replacing(target, check) as temporary:
            temporary.write_bytes(model.SerializeToString())
        return
    import onnx

    # The data is written first: without the model that names it, it is harmless.
    data = _free(target.resolve())
    try:
        with replacing(target, check) as temporary:
            onnx.save_model(model, temporary, save_as_external_data=True, location=data.name)
    except BaseException:
        data.unlink(missing_ok=True)
        raise


def _free(target: Path) -> Path:
    data, number = target.with_name(f"{target.name}.data"), 2
    while data.exists():
        data, number = target.with_name(f"{target.name}.data{number}"), number + 1
    return data
