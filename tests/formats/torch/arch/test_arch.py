"""Models from the user's own code: how it is called, errors when it fails or does not fit, and that weights, masks and
dtypes are read correctly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions, load, open_model_file
from effsparse_cli.formats.torch.checkpoint.storage import is_mapped
from effsparse_cli.graph.graph import Graph
from tests.formats.torch.cases import r

HERE = "tests.formats.torch.arch.test_arch"


class Net(nn.Module):
    """A net with a non-persistent buffer, a tied weight, a norm and an activation chosen by name."""

    def __init__(self, width: int = 8, act: str = "relu", tables: bool = True) -> None:
        super().__init__()
        self.act = getattr(torch, act)
        self.fc1 = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, width)
        self.fc3.weight = self.fc2.weight
        if tables:
            self.register_buffer("table", torch.arange(1.0, width + 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.fc1(x)))
        x = x * self.get_buffer("table") if hasattr(self, "table") else x
        return self.fc3(self.act(self.fc2(x)))  # type: ignore[no-any-return]


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def failing(message: str = "nope") -> nn.Module:
    raise ValueError(message)


INSTANCE = plain()
NUMBER = 3


def saved(tmp_path: Path, model: nn.Module | dict[str, torch.Tensor]) -> Path:
    torch.save(model.state_dict() if isinstance(model, nn.Module) else model, tmp_path / "m.pth")
    return tmp_path / "m.pth"


def kept(graph: Graph) -> dict[str, int]:
    return {name: int(layer.kept().sum()) for name, layer in graph.layers.items()}


@pytest.mark.parametrize("tables", [True, False])
def test_arguments_of_user_code(tmp_path: Path, tables: bool) -> None:
    """Python literals are parsed, anything else is a string."""
    file = saved(tmp_path, Net(6, "tanh", tables))
    arguments = {"width": "6", "act": "tanh", "tables": str(tables)}
    graph = load(file, LoadOptions(arch=f"{HERE}:Net", arch_args=arguments))
    assert kept(graph) == {"fc1": 24, "fc2": 36}


def test_live_module_has_copies(tmp_path: Path) -> None:
    file = saved(tmp_path, Net())
    live = open_model_file(file, LoadOptions(arch=f"{HERE}:Net")).module()
    assert not any(is_mapped(tensor) or tensor.is_meta for tensor in live.state_dict().values())
    assert live.get_parameter("fc3.weight") is live.get_parameter("fc2.weight")
    assert live.get_parameter("fc1.weight").requires_grad
    live(r(3, 4)).sum().backward()


def test_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_net.py").write_text(
        "from torch import nn\ndef make(n): return nn.Sequential(nn.Linear(4, n), nn.ReLU(), nn.Linear(n, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    graph = load(saved(tmp_path, plain()), LoadOptions(arch="my_own_net:make", arch_args={"n": "8"}))
    assert list(graph.layers) == ["0", "2"]


@pytest.mark.parametrize("arch", ["plain", "INSTANCE", "nn.Identity"])
def test_functions_instances_and_classes(tmp_path: Path, arch: str) -> None:
    options = LoadOptions(arch=f"{HERE}:{arch}", input_shapes={"": (1, 4)})
    if arch == "nn.Identity":
        with pytest.raises(UsageError, match="4 tensors of the file are not in the model"):
            load(saved(tmp_path, plain()), options)
    else:
        assert list(load(saved(tmp_path, plain()), options).layers) == ["0", "2"]


@pytest.mark.parametrize(
    ("arch", "arguments", "expected"),
    [
        ("lenet5", {}, r"unknown model\. Did you mean lenet-5\? Use lenet-300-100"),
        ("nosuch.module:make", {}, "nosuch.module cannot be imported: ModuleNotFoundError"),
        (f"{HERE}:plan", {}, r"plan does not exist\. Did you mean plain"),
        (f"{HERE}:NUMBER", {}, "NUMBER is a int"),
        (f"{HERE}:failing", {"message": "so there"}, r"called with \(message='so there'\): ValueError: so there"),
        (f"{HERE}:plain", {"depth": "3"}, "unexpected keyword argument 'depth'"),
        (f"{HERE}:saved", {}, "failed when called with"),
        ("builtins:dict", {}, "returned a dict, not a torch.nn.Module"),
        ("torch.nn:LazyLinear", {"out_features": "3"}, "lazy"),
        ("hf", {}, "Pass the folder"),
        ("", {"width": "3"}, "--arch-arg requires --arch"),
    ],
)
def test_invalid_architectures(tmp_path: Path, arch: str, arguments: dict[str, str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as caught:
        load(saved(tmp_path, plain()), LoadOptions(arch=arch, arch_args=arguments))
    assert "\n" not in str(caught.value)


def test_mismatches_are_listed_with_the_closest_names(tmp_path: Path) -> None:
    state = Net().state_dict()
    state["fc4.weight"] = state.pop("fc1.weight")
    state["norm.bias"] = torch.ones(3)
    with pytest.raises(UsageError) as caught:
        load(saved(tmp_path, state), LoadOptions(arch=f"{HERE}:Net"))
    for expected in (
        "1 tensor of the model is not in the file: fc1.weight (closest: fc4.weight)",
        "1 tensor of the file is not in the model: fc4.weight (closest: fc1.weight)",
        "norm.bias is 3 in the file and 8 in the model",
    ):
        assert expected in str(caught.value)
    many = {**Net().state_dict(), **{f"extra{i}.weight": torch.ones(2, 2) for i in range(50)}}
    with pytest.raises(UsageError, match=r"50 tensors of the file are not in the model: extra0.weight") as caught:
        load(saved(tmp_path, many), LoadOptions(arch=f"{HERE}:Net"))
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module._orig_mod.", "net.model."])
def test_prefixes_of_wrappers(tmp_path: Path, prefix: str) -> None:
    state = {f"{prefix}{name}": tensor for name, tensor in Net().state_dict().items()}
    assert kept(load(saved(tmp_path, state), LoadOptions(arch=f"{HERE}:Net"))) == {"fc1": 32, "fc2": 64}


def test_tensors_without_the_prefix_are_left_out(tmp_path: Path) -> None:
    state = {f"model.{name}": tensor for name, tensor in Net().state_dict().items()}
    averaged = {f"ema_model.{name}": torch.zeros_like(tensor) for name, tensor in Net().state_dict().items()}
    state = {**averaged, **state, "criterion.weight": torch.ones(3)}
    found = load(saved(tmp_path, state), LoadOptions(arch=f"{HERE}:Net"))
    assert kept(found) == {"fc1": 32, "fc2": 64}
    assert any("tensors outside model are ignored: ema_model.fc1.weight" in note for note in found.notes)


def test_names_of_compiled_submodules(tmp_path: Path) -> None:
    state = {name.replace("fc2.", "fc2._orig_mod."): tensor for name, tensor in Net().state_dict().items()}
    assert list(load(saved(tmp_path, state), LoadOptions(arch=f"{HERE}:Net")).layers) == ["fc1", "fc2"]


def test_missing_counters_and_extra_buffers(tmp_path: Path) -> None:
    """Batch norm counters and a tied weight are missing, and a non-persistent buffer is stored."""
    state = Net().state_dict()
    del state["norm.num_batches_tracked"], state["fc3.weight"]
    state["table"] = torch.ones(8)
    assert list(load(saved(tmp_path, state), LoadOptions(arch=f"{HERE}:Net")).layers) == ["fc1", "fc2"]


def test_pruning_masks(tmp_path: Path) -> None:
    model = plain()
    assert isinstance(model, nn.Sequential)
    for layer in (model[0], model[2]):
        prune.random_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]
    prune.random_unstructured(model[0], "bias", 3)  # type: ignore[no-untyped-call]
    masked = LoadOptions(arch=f"{HERE}:plain")
    graph = load(saved(tmp_path, model), masked)
    for name in ("0", "2"):
        mask = model.get_submodule(name).get_buffer("weight_mask").bool().numpy()
        assert np.array_equal(graph.layers[name].kept(), mask)
        assert graph.layers[name].masked
        values = graph.layers[name].values
        assert values is not None
        assert np.array_equal(values(), model.get_submodule(name).get_parameter("weight_orig").detach().numpy())
    live = open_model_file(tmp_path / "m.pth", masked).module()
    x = r(5, 4)
    assert torch.equal(live(x), model(x))


def test_model_with_its_own_masks(tmp_path: Path) -> None:
    model = hooked()
    graph = load(saved(tmp_path, model), LoadOptions(arch=f"{HERE}:hooked"))
    assert kept(graph) == {"0": 16, "2": 16}


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    return model


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_than_the_model(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {name: t.to(dtype) if t.is_floating_point() else t for name, t in Net().state_dict().items()}
    state["norm.running_var"] = state["norm.running_var"].float()
    assert kept(load(saved(tmp_path, state), LoadOptions(arch=f"{HERE}:Net"))) == {"fc1": 32, "fc2": 64}


def test_safetensors_with_an_architecture(tmp_path: Path) -> None:
    save_file({f"net.{name}": tensor for name, tensor in plain().state_dict().items()}, tmp_path / "m.safetensors")
    for key in ("", "net"):
        graph = load(tmp_path / "m.safetensors", LoadOptions(arch=f"{HERE}:plain", key=key))
        assert kept(graph) == {"0": 32, "2": 16}
    with pytest.raises(UsageError, match=r"no name in .* starts with 'nose\.'"):
        load(tmp_path / "m.safetensors", LoadOptions(arch=f"{HERE}:plain", key="nose"))


def test_arch_is_refused_for_files_with_a_graph(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(plain(), (r(1, 4),)), tmp_path / "m.pt2")
    with pytest.raises(UsageError, match="its own graph"):
        load(tmp_path / "m.pt2", LoadOptions(arch="lenet-5"))
