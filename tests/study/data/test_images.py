"""Image folders: the layouts of ImageNet and Tiny-ImageNet, scaling, and images that cannot be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from effsparse_cli.errors import EffsparseError, LoadError, SetupError
from effsparse_cli.study.data import images, read_data


def save(path: Path, color: tuple[int, int, int], size: tuple[int, int] = (6, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def make_folder(folder: Path, test: str = "test") -> dict[str, str]:
    for name, color in (("cat", (255, 0, 0)), ("dog", (0, 255, 0))):
        for i in range(3):
            save(folder / "train" / name / f"{i}.png", color)
        save(folder / test / name / "0.png", color)
    return {"kind": "images", "path": str(folder)}


@pytest.mark.parametrize("test", ["val", "test"])
def test_class_folders(tmp_path: Path, test: str) -> None:
    data = read_data(make_folder(tmp_path, test))
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert (data.shape, data.classes, len(data.test)) == ((3, 6, 6), 2, 2)
    pixels = data.train.examples.read(torch.tensor([0, 3]))
    assert pixels[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 255, 0]]


def test_images_of_16_bits_are_scaled_to_8(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    deep = np.full((6, 6), 1000, np.uint16)
    deep[0, 0] = 60000
    Image.fromarray(deep).save(tmp_path / "train" / "cat" / "0.png")
    for channels in (1, 3):
        pixels = read_data({**folder, "channels": channels}).train.examples.read(torch.tensor([0]))
        assert pixels[0, :, 0, :2].tolist() == [[60000 // 256, 1000 // 256]] * channels


def test_gray_images(tmp_path: Path) -> None:
    data = read_data({**make_folder(tmp_path), "channels": 1})
    assert data.shape == (1, 6, 6)


def test_tiny_imagenet(tmp_path: Path) -> None:
    for name in ("n01", "n02"):
        save(tmp_path / "train" / name / "images" / f"{name}_0.jpeg", (9, 9, 9))
    for i in range(2):
        save(tmp_path / "val" / "images" / f"val_{i}.jpeg", (9, 9, 9))
    save(tmp_path / "test" / "images" / "test_0.jpeg", (9, 9, 9))
    lines = "val_0.jpeg\tn02\t0\t0\t5\t5\nval_1.jpeg\tn01\t0\t0\t5\t5\n"
    (tmp_path / "val" / "val_annotations.txt").write_text(lines)
    spec = {"kind": "images", "path": str(tmp_path)}
    assert read_data(spec).test.labels.tolist() == [1, 0]
    (tmp_path / "val" / "val_annotations.txt").write_text(lines.replace("n01", "n03"))
    with pytest.raises(LoadError, match="line 2: no such image or class"):
        read_data(spec)


def test_scaling_keeps_the_center_of_the_shorter_side(tmp_path: Path) -> None:
    spec = make_folder(tmp_path)
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "train" / "cat" / "0.png")
    data = read_data({**spec, "size": 4, "resize": 10})
    assert (data.shape, data.size) == ((3, 4, 4), 4)
    assert bool((data.train.examples.read(torch.tensor([0])) == 200).all())


def test_images_too_many_for_memory_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = read_data(make_folder(tmp_path))
    monkeypatch.setattr(images, "MOST_BYTES_HELD", 100)
    lazy = read_data(make_folder(tmp_path))
    assert isinstance(lazy.train.examples, images.ImageFiles)
    every = torch.arange(6)
    assert torch.equal(held.train.examples.read(every), lazy.train.examples.read(every))
    assert torch.equal(held.statistics[0], lazy.statistics[0])


def damage(folder: Path, kind: str) -> None:
    target = folder / "train" / "cat" / "1.png"
    match kind:
        case "text":
            target.write_text("<svg onload=alert(1)>")
        case "truncated":
            Image.fromarray(np.random.default_rng(0).integers(0, 255, (6, 6, 3)).astype(np.uint8)).save(target)
            target.write_bytes(target.read_bytes()[:60])
        case "large":
            save(target, (1, 2, 3), (7, 6))
        case "huge":
            header = target.read_bytes()
            target.write_bytes(header[:16] + (60_000).to_bytes(4, "big") * 2 + header[24:])
        case "class":
            save(folder / "test" / "bird" / "0.png", (1, 1, 1))
        case "empty":
            for path in (folder / "train" / "dog").iterdir():
                path.unlink()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", r"1\.png is not a readable image"),
        ("truncated", r"1\.png is not a readable image"),
        ("large", r"1\.png has 7x6 pixels, but .*0\.png has 6x6"),
        ("huge", r"1\.png (has 60000x60000 pixels|is not a readable image)"),
        ("class", "bird: there is no such class in the training set"),
        ("empty", "dog has no images"),
    ],
)
def test_unusable_images(tmp_path: Path, kind: str, message: str) -> None:
    spec = make_folder(tmp_path)
    damage(tmp_path, kind)
    with pytest.raises((LoadError, SetupError), match=message):
        read_data(spec)


def test_other_kinds_suggest_this_one(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r'has no data_batch_1\.bin: .* use kind = "images"'):
        read_data({**make_folder(tmp_path), "kind": "cifar10"})


def test_more_examples_than_there_are(tmp_path: Path) -> None:
    for key, number in (("train", 7), ("test", 3)):
        with pytest.raises(EffsparseError, match=f"{key} is {number}, but .* has only {number - 1} such examples"):
            read_data({**make_folder(tmp_path), key: number})


def test_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="has no folder train"):
        read_data({"kind": "images", "path": str(tmp_path)})
    save(tmp_path / "train" / "cat" / "0.png", (1, 1, 1))
    with pytest.raises(LoadError, match="has no folder val or test"):
        read_data({"kind": "images", "path": str(tmp_path)})
    with pytest.raises(EffsparseError, match="fewer than the size"):
        read_data({"kind": "images", "path": str(tmp_path), "size": 8, "resize": 4})
