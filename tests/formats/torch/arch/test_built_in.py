"""Built-in models: the numbers of weights of the paper, the names and outputs of torchvision, and their state_dicts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.architectures import ARCHITECTURES
from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from sample_models.make import build
from tests.torchvision_models import models

WEIGHTS = {name: each.weights for name, each in ARCHITECTURES.items()}


def test_numbers_of_weights() -> None:
    with torch.device("meta"):
        made = {name: known.make() for name, known in BUILT_IN.items()}
    assert {name: sum(p.numel() for p in m.parameters() if p.ndim > 1) for name, m in made.items()} == WEIGHTS


THEIRS = {"resnet50": "resnet50", "mobilenet-v2": "mobilenet_v2"}


@pytest.mark.parametrize("name", THEIRS)
def test_names_and_shapes_of_torchvision(name: str) -> None:
    with torch.device("meta"):
        ours, other = BUILT_IN[name].make(), getattr(models(), THEIRS[name])()
    shapes = [[(key, tensor.shape) for key, tensor in model.state_dict().items()] for model in (ours, other)]
    assert shapes[0] == shapes[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", THEIRS)
def test_outputs_of_torchvision(name: str) -> None:
    torch.manual_seed(0)
    ours, other = BUILT_IN[name].make().eval(), getattr(models(), THEIRS[name])().eval()
    ours.load_state_dict(other.state_dict())
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(ours(x), other(x))


LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in BUILT_IN if not name.startswith("lenet")]


@pytest.mark.parametrize("name", ["lenet-300-100", "lenet-5", *LARGE])
def test_state_dict_with_arch(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    module = BUILT_IN[name].make()
    torch.save(module.state_dict(), tmp_path / "m.pth")
    graph = load(tmp_path / "m.pth", LoadOptions(arch=name))
    assert sum(layer.kept().size for layer in graph.layers.values()) == WEIGHTS[name]
    assert [graph.nodes[i].shape for i in graph.sources] == [BUILT_IN[name].shape]
    assert any("the usual one for this model" in note for note in graph.notes)
    with pytest.raises(LoadError, match=f"looks like {name}: try --arch {name}"):
        load(tmp_path / "m.pth", LoadOptions())


@pytest.mark.parametrize(("sample", "name"), [("lenet300_uniform99.pt", "lenet-300-100"), ("lenet5_igq.pt", "lenet-5")])
def test_sample_models(tmp_path: Path, sample: str, name: str) -> None:
    model = build(sample)
    torch.save(model.state_dict(), tmp_path / "m.pth")
    torch.save(model, tmp_path / "m.pt")
    shape = LoadOptions(input_shapes={"": BUILT_IN[name].shape})
    whole, tensors = load(tmp_path / "m.pt", shape), load(tmp_path / "m.pth", LoadOptions(arch=name))
    assert list(whole.layers) == list(tensors.layers)
    for layer in whole.layers:
        assert (whole.layers[layer].kept() == tensors.layers[layer].kept()).all()


def test_another_number_of_classes(tmp_path: Path) -> None:
    torch.save(BUILT_IN["lenet-5"].make(num_classes=7).state_dict(), tmp_path / "m.pth")
    with pytest.raises(LoadError, match=r"looks like lenet-5: try --arch lenet-5 --arch-arg num_classes=7\."):
        load(tmp_path / "m.pth", LoadOptions())
    graph = load(tmp_path / "m.pth", LoadOptions(arch="lenet-5", arch_args={"num_classes": "7"}))
    assert graph.layers["fc3"].shape == (7, 84)
    with torch.device("meta"):
        vgg = BUILT_IN["vgg16-cifar"].make(bias=False).state_dict()
    torch.save({name: torch.zeros(tensor.shape) for name, tensor in vgg.items()}, tmp_path / "m.pth")
    with pytest.raises(LoadError, match=r"--arch vgg16-cifar --arch-arg bias=False"):
        load(tmp_path / "m.pth", LoadOptions())


@pytest.mark.parametrize("name", ["lenet-300-100", "lenet-5"])
def test_batch_norm_before_every_relu(tmp_path: Path, name: str) -> None:
    model = BUILT_IN[name].make(batch_norm=True)
    kinds = [type(layer) for layer in model.children()]
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
    assert all(kinds[i - 1] in norms for i, kind in enumerate(kinds) if kind is torch.nn.ReLU)
    assert sum(kind in norms for kind in kinds) == kinds.count(torch.nn.ReLU)
    assert model(torch.zeros(2, *BUILT_IN[name].shape[1:])).shape == (2, 10)
    torch.save(model.state_dict(), tmp_path / "m.pth")
    with pytest.raises(LoadError, match=f"--arch {name} --arch-arg batch_norm=True"):
        load(tmp_path / "m.pth", LoadOptions())


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"a": (5, 4), "b": (3, 5), "c": (2, 3)}, r"a chain of 3 linear layers \(4-5-3-2\)"),
        ({"a": (5, 4, 3, 3), "b": (3, 5, 3, 3)}, "a chain of 2 convolutions"),
        ({"a": (5, 4), "b": (3, 6)}, "Pass its model with --arch"),
        ({"a": (5,)}, "Pass its model with --arch"),
    ],
)
def test_guesses(tmp_path: Path, shapes: dict[str, tuple[int, ...]], expected: str) -> None:
    torch.save({f"{name}.weight": torch.ones(shape) for name, shape in shapes.items()}, tmp_path / "m.pth")
    with pytest.raises(LoadError, match=expected):
        load(tmp_path / "m.pth", LoadOptions())
