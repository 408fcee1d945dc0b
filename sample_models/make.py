"""Make the sample models in this folder: `python sample_models/make.py` always writes the same tensors.

| file | content |
|---|---|
| figure1.pt | the paper's Figure 1: 21 edges, 11 pruned; direct 11/21, effective 16/21 |
| lenet300_uniform99.pt | LeNet-300-100, each layer pruned at random to 0.99: 100x direct, about 1000x effective |
| lenet5_igq.pt | LeNet-5 on 3x32x32, pruned at random to 0.99 by ideal gas quotas; has biases |
| resnet_small.pt2 | residual blocks and batch norms with running statistics, two norm scales at zero |
| depthwise.pt2 | a depthwise-separable block with a squeeze-excite gate |
| transformer_tiny.pt2 | token embedding and two encoder layers: attention with a fused input projection |
| lstm.pt2 | a two-layer LSTM and a linear head |
| lenet5.onnx | the network of lenet5_igq.pt as ONNX |
| masked.onnx | three linear layers whose weights are multiplied by masks at run time |
| quantized.onnx | three linear layers with uint8 weights: a pruned weight is the zero point 128 |
| lenet5_masks.pth | the state_dict of a LeNet-5 pruned by torch.nn.utils.prune |
| llama_tiny | a Hugging Face folder: a Llama of two blocks, pruned 2:4 |

A .pt file contains a module of torch.nn classes only, so it can be read without running code. Modules with custom
classes are stored as exported programs. The last five are made by other_formats.py.
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

Densities = Callable[[list[int]], list[float]]


def uniform(density: float) -> Densities:
    return lambda sizes: [density] * len(sizes)


def ideal_gas(density: float) -> Densities:
    """Return densities 1 / (1 + F n) for layers of n weights, with F set to match the total (the paper, section 4)."""

    def quotas(sizes: list[int]) -> list[float]:
        low, high = 0.0, 1.0
        for _ in range(200):
            force = (low + high) / 2
            kept = sum(n / (1 + force * n) for n in sizes)
            low, high = (force, high) if kept > density * sum(sizes) else (low, force)
        return [1 / (1 + low * n) for n in sizes]

    return quotas


def weights_of(model: nn.Module) -> list[Tensor]:
    """Return the tensors of connections: every matrix or kernel that is not an embedding."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return [p for p in model.parameters() if p.ndim > 1 and id(p) not in embeddings]


def prune(model: nn.Module, densities: Densities, seed: int) -> None:
    """Set weights to zero at random, an exact number in each layer."""
    generator = torch.Generator().manual_seed(seed)
    weights = weights_of(model)
    quotas = densities([w.numel() for w in weights])
    with torch.no_grad():
        for weight, density in zip(weights, quotas, strict=True):
            keep = torch.randperm(weight.numel(), generator=generator)[: round(weight.numel() * density)]
            mask = torch.zeros(weight.numel())
            mask[keep] = 1
            weight.mul_(mask.view(weight.shape))


def figure1() -> nn.Module:
    model = nn.Sequential(
        OrderedDict(
            fc1=nn.Linear(3, 3, bias=False),
            relu1=nn.ReLU(),
            fc2=nn.Linear(3, 3, bias=False),
            relu2=nn.ReLU(),
            fc3=nn.Linear(3, 1, bias=False),
        )
    )
    kept = {
        "fc1": [[1, 1, 1], [1, 1, 0], [0, 0, 0]],
        "fc2": [[1, 0, 1], [1, 0, 1], [0, 0, 0]],
        "fc3": [[1, 0, 0]],
    }
    with torch.no_grad():
        for name, mask in kept.items():
            model.get_submodule(name).get_parameter("weight").copy_(torch.tensor(mask))
    return model


def lenet300() -> nn.Module:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=nn.Linear(784, 300),
        relu1=nn.ReLU(),
        fc2=nn.Linear(300, 100),
        relu2=nn.ReLU(),
        fc3=nn.Linear(100, 10),
    )
    model = nn.Sequential(layers)
    with torch.no_grad():
        for layer in layers.values():
            if isinstance(layer, nn.Linear):
                layer.bias.zero_()
    prune(model, uniform(0.01), seed=1)
    return model


def lenet5_network() -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 6, 5),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(400, 120),
            relu3=nn.ReLU(),
            fc2=nn.Linear(120, 84),
            relu4=nn.ReLU(),
            fc3=nn.Linear(84, 10),
        )
    )


def lenet5() -> nn.Module:
    model = lenet5_network()
    prune(model, ideal_gas(0.01), seed=0)
    return model


def randomize_norms(model: nn.Module) -> None:
    """Set running statistics, scales and shifts to values as after training, instead of zeros and ones."""
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        for tensor in (norm.running_mean, norm.bias):
            nn.init.normal_(tensor, std=0.2)  # type: ignore[arg-type]
        for tensor in (norm.running_var, norm.weight):
            nn.init.uniform_(tensor, 0.5, 1.5)  # type: ignore[arg-type]


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.block1 = Residual(8, 8, stride=1)
        self.block2 = Residual(8, 16, stride=2)
        self.block3 = Residual(16, 32, stride=2)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.stem(x)))
        x = self.block3(self.block2(self.block1(x)))
        return self.head(x.mean(dim=(2, 3)))  # type: ignore[no-any-return]


def resnet() -> nn.Module:
    model = ResNet()
    randomize_norms(model)
    with torch.no_grad():
        for norm in (model.block2.bn1, model.block3.bn1):
            norm.weight[0] = 0
    prune(model, ideal_gas(0.03), seed=0)
    return model


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Conv2d(8, 32, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.squeeze = nn.Conv2d(32, 8, 1)
        self.excite = nn.Conv2d(8, 32, 1)
        self.project = nn.Conv2d(32, 8, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.expand(x)))
        y = torch.relu(self.bn2(self.depthwise(y)))
        gate = self.excite(torch.relu(self.squeeze(y.mean(dim=(2, 3), keepdim=True))))
        return x + self.project(y * torch.sigmoid(gate))  # type: ignore[no-any-return]


def depthwise() -> nn.Module:
    model = Depthwise()
    randomize_norms(model)
    prune(model, uniform(0.1), seed=0)
    return model


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.tokens(tokens))[:, 0])  # type: ignore[no-any-return]


def transformer() -> nn.Module:
    model = Transformer()
    prune(model, uniform(0.02), seed=0)
    return model


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])  # type: ignore[no-any-return]


def lstm() -> nn.Module:
    model = Recurrent()
    prune(model, uniform(0.02), seed=0)
    return model


MODELS: Mapping[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "figure1.pt": (figure1, torch.zeros(1, 3)),
    "lenet300_uniform99.pt": (lenet300, torch.zeros(1, 784)),
    "lenet5_igq.pt": (lenet5, torch.zeros(1, 3, 32, 32)),
    "resnet_small.pt2": (resnet, torch.zeros(1, 3, 32, 32)),
    "depthwise.pt2": (depthwise, torch.zeros(1, 8, 16, 16)),
    "transformer_tiny.pt2": (transformer, torch.zeros(1, 8, dtype=torch.int64)),
    "lstm.pt2": (lstm, torch.zeros(1, 6, 16)),
}


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name][0]().eval()


def export(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    # The fast path would hide the weights of the encoder in one fused operator.
    torch.backends.mha.set_fastpath_enabled(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the LSTM warns about flattening its weights
        program = torch.export.export(model, (example,))
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # contains source paths of this machine
    return program


def write(folder: Path, names: Iterable[str] = MODELS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        model, target = build(name), folder / name
        if target.suffix == ".pt2":
            torch.export.save(export(model, MODELS[name][1]), target)
        else:
            torch.save(model, target)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    write(destination)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from sample_models.other_formats import OTHER_FORMATS

    for file, write_file in OTHER_FORMATS.items():
        write_file(destination / file)
