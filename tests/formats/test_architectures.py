"""Names for --arch: any case, suggestions, and the models of torchvision."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.formats import architectures
from effsparse_cli.formats.architectures import find_arch


@pytest.mark.parametrize(
    ("given", "found"), [("", ""), ("HF", "hf"), ("LeNet-5", "lenet-5"), ("mine.models:Net", "mine.models:Net")]
)
def test_known(given: str, found: str) -> None:
    assert find_arch(given) == found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("lenet5", "Did you mean lenet-5?"),
        ("vgg19_cifar", "Did you mean vgg19-cifar?"),
        ("resnet18", "use --arch torchvision.models:resnet18."),
        ("MobileNet-V3-Small", "use --arch torchvision.models:mobilenet_v3_small."),
        ("nosuch", "unknown model. Use lenet-300-100,"),
    ],
)
def test_suggestions(given: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_arch(given)
    assert expected in str(caught.value)


def test_without_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(architectures, "find_spec", find_nothing)
    with pytest.raises(UsageError, match=r"install torchvision and use --arch torchvision.models:swin_b"):
        find_arch("swin_b")
