"""The built-in models by the names that --arch accepts, in a table that can be read without importing torch."""

from __future__ import annotations

import difflib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from effsparse_cli.errors import UsageError

REGISTERED = re.compile(r"^@register_model\(.*?^def (\w+)\(", re.MULTILINE | re.DOTALL)


class Architecture(NamedTuple):
    """`function` builds it in `torch/arch/built_in.py`, `shape` the usual input shape, `weights` the number
    of connections."""

    function: str
    shape: tuple[int, ...]
    weights: int
    about: str


ARCHITECTURES = {
    "lenet-300-100": Architecture("lenet_300_100", (1, 784), 266_200, "LeNet-300-100 for MNIST"),
    "lenet-5": Architecture("lenet_5", (1, 3, 32, 32), 61_770, "LeNet-5 for CIFAR-10"),
    "vgg16-cifar": Architecture("vgg16", (1, 3, 32, 32), 14_715_584, "VGG-16 with batch norm for CIFAR-10"),
    "vgg19-cifar": Architecture("vgg19", (1, 3, 32, 32), 20_070_080, "VGG-19 with batch norm for CIFAR-100"),
    "resnet18-tiny": Architecture("resnet18_tiny", (1, 3, 64, 64), 11_261_632, "ResNet-18 for TinyImageNet"),
    "resnet50": Architecture("resnet50", (1, 3, 224, 224), 25_502_912, "ResNet-50 of torchvision"),
    "mobilenet-v2": Architecture("MobileNet", (1, 3, 224, 224), 3_469_760, "MobileNetV2 of torchvision"),
}


def find_arch(arch: str) -> str:
    """Return the architecture that a user means, with built-in models in any case. Raise an error with a suggestion if
    there is none."""
    if arch == "" or ":" in arch:
        return arch
    if arch.lower() in ("hf", *ARCHITECTURES):
        return arch.lower()
    raise UsageError(
        f"--arch {arch}: unknown model. {_suggestion(arch)}Use {', '.join(ARCHITECTURES)}, hf for the model of a "
        "config.json, or package.module:factory for your own code."
    )


def _suggestion(arch: str) -> str:
    close = difflib.get_close_matches(arch.lower(), ARCHITECTURES, n=1, cutoff=0.5)
    known = {_letters(name): name for name in _torchvision_models()}
    if _letters(arch) in known:
        return f"For the model of torchvision, use --arch torchvision.models:{known[_letters(arch)]}. "
    if close:
        return f"Did you mean {close[0]}? "
    if not known:
        name = re.sub(r"[^a-z0-9]+", "_", arch.lower())
        return f"For a model of torchvision, install torchvision and use --arch torchvision.models:{name}. "
    return ""


def _torchvision_models() -> list[str]:
    """Return the models of torchvision, if it is installed, from its source: importing it takes seconds."""
    spec = find_spec("torchvision")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder, "models").rglob("*.py")]
    return [name for file in files for name in REGISTERED.findall(file.read_text(encoding="utf-8"))]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
