"""Image folders: `train/CLASS/*.png` and `val/CLASS` or `test/CLASS`, as in ImageNet, and the layout of Tiny-ImageNet,
whose validation labels are in `val/val_annotations.txt`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.errors import EffsparseError, LoadError, SetupError, UsageError, first_line
from effsparse_cli.study.data.dataset import Data, Examples, Source, Split, Stored, make_data

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
ANNOTATIONS = "val_annotations.txt"
MOST_PIXELS = 1 << 26
MOST_BYTES_HELD = 1 << 32
"""Larger sets of images are read batch by batch."""


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Images that are decoded when they are read. `resize` is the side that they are scaled to; without, all must have
    the size of the first."""

    paths: tuple[Path, ...]
    channels: int
    resize: int | None
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, positions: torch.Tensor) -> torch.Tensor:
        found = np.empty((len(positions), self.channels, *self.shape), np.uint8)
        paths = [self.paths[i] for i in positions.tolist()]
        # Pillow decodes without holding the interpreter's lock.
        with ThreadPoolExecutor(min(8, torch.get_num_threads())) as pool:
            for i, pixels in enumerate(pool.map(self._decode, paths)):
                found[i] = pixels
        return torch.from_numpy(found)

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        pixels = np.asarray(open_image(path, self.channels, self.resize))
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        if pixels.shape[1:] != self.shape:
            sizes = ["x".join(map(str, reversed(each))) for each in (pixels.shape[1:], self.shape)]
            raise SetupError(
                f"{path} has {sizes[0]} pixels, but {self.paths[0]} has {sizes[1]}. Set a size to scale all images to."
            )
        return pixels


def open_image(path: Path, channels: int, resize: int | None) -> Any:
    """Decode an image. With `resize`, scale its shorter side to it and cut the center."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise UsageError("image folders need Pillow: pip install pillow") from error
    try:
        with Image.open(path, formats=FORMATS) as file:
            if file.width * file.height > MOST_PIXELS:
                raise SetupError(f"{path} has {file.width}x{file.height} pixels, which is too large for an example.")
            deep = file.mode.startswith("I")  # Pillow would clip 16 bits to the 255 of 8 bits
            image = Image.fromarray((np.asarray(file) >> 8).astype(np.uint8)) if deep else file
            image = image.convert("L" if channels == 1 else "RGB")
    except EffsparseError:
        raise
    except Exception as error:
        reason = first_line(error, 200)
        raise SetupError(f"{path} is not a readable image ({reason}). Replace or delete it.") from error
    if resize is None or image.size == (resize, resize):
        return image
    scale = resize / min(image.size)
    width, height = (max(resize, round(side * scale)) for side in image.size)
    left, top = (width - resize) // 2, (height - resize) // 2
    return image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + resize, top + resize))


def read(source: Source) -> Data:
    folder = Path(source.path)
    if not (folder / "train").is_dir():
        raise LoadError(f"{folder} has no folder train with a folder of images for each class.")
    channels, resize = source.channels or 3, source.resize or source.size
    if channels not in (1, 3):
        raise UsageError(f"data: channels is {channels}: images have 1 or 3.")
    if source.size is not None and resize is not None and resize < source.size:
        raise UsageError(f"data: images are scaled to {resize} pixels, which are fewer than the size {source.size}.")
    classes = {entry.name: i for i, entry in enumerate(_folders(folder / "train"))}
    train, test = list_classes(folder / "train", classes), _list_test(folder, classes)
    first = open_image(train[0][0], channels, resize)

    def split(files: list[tuple[Path, int]]) -> Split:
        found = ImageFiles(tuple(path for path, _ in files), channels, resize, (first.height, first.width))
        return Split(found, torch.tensor([label for _, label in files]))

    return make_data(
        split(train), split(test), source, size=source.size if resize != source.size else None, load=_select
    )


def _select(examples: Examples, chosen: torch.Tensor) -> Examples:
    """Take some images, and decode them now if they fit into memory."""
    assert isinstance(examples, ImageFiles)
    paths = tuple(examples.paths[i] for i in chosen.tolist())
    found = ImageFiles(paths, examples.channels, examples.resize, examples.shape)
    if len(paths) * examples.channels * examples.shape[0] * examples.shape[1] > MOST_BYTES_HELD:
        return found
    return Stored(found.read(torch.arange(len(paths))))


def _list_test(folder: Path, classes: Mapping[str, int]) -> list[tuple[Path, int]]:
    annotations = folder / "val" / ANNOTATIONS
    if annotations.is_file():
        return _list_annotated(annotations, classes)
    for name in ("val", "test"):
        if any(entry.name in classes for entry in _folders(folder / name)):
            return list_classes(folder / name, classes)
    raise LoadError(f"{folder} has no folder val or test with a folder of images for each class.")


def list_classes(folder: Path, classes: Mapping[str, int]) -> list[tuple[Path, int]]:
    """Return the images below each class folder, in order of names."""
    strange = [entry.name for entry in _folders(folder) if entry.name not in classes]
    if strange:
        raise LoadError(f"{folder / strange[0]}: there is no such class in the training set.")
    found = []
    for name, label in classes.items():
        images = sorted(
            path for path in (folder / name).rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()
        )
        if not images:
            raise LoadError(f"{folder / name} has no images.")
        found += [(path, label) for path in images]
    if not found:
        raise LoadError(f"{folder} has no folder of images for each class.")
    return found


def _list_annotated(annotations: Path, classes: Mapping[str, int]) -> list[tuple[Path, int]]:
    """Each line has the name of an image and its class, separated by tabs."""
    found = []
    for number, line in enumerate(annotations.read_text("utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        name, _, rest = line.partition("\t")
        label = classes.get(rest.partition("\t")[0])
        path = annotations.parent / "images" / os.path.basename(name)
        if label is None or not path.is_file():
            raise LoadError(f"{annotations}, line {number}: no such image or class.")
        found.append((path, label))
    return found


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
