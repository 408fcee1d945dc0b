"""Callbacks, called by the training loops of their libraries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from effsparse_cli import analyze
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.training.logged import SparsityLog
from tests.torchvision_models import models

models()  # both libraries import torchvision if it is installed

STEPS, WIDTH = 4, 8


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))


def cut_one_neuron(layer: Any, step: int) -> None:
    """Remove the inputs of one more neuron after every step, so that its outputs become inactive."""
    with torch.no_grad():
        layer.weight[step % 16] = 0


def analyze_cut(cut: int) -> Analysis:
    """Analyze the network with `cut` neurons removed."""
    model = network()
    for step in range(cut):
        cut_one_neuron(model[0], step)
    return analyze(model, torch.zeros(1, WIDTH))


def expected(cut: int) -> dict[str, float]:
    totals = analyze_cut(cut).totals
    return {"direct_sparsity": totals.direct_sparsity, "effective_sparsity": totals.effective_sparsity}


def expected_layers(cut: int, path: str) -> dict[str, float]:
    """Return what is logged with `per_layer` and the prefix "sparsity/", if `path` is the name of the network."""
    layers = {f"/{path}{layer.name}": layer.counts for layer in analyze_cut(cut).layers}
    counts = {"": analyze_cut(cut).totals, **layers}
    direct = {f"sparsity/direct_sparsity{name}": each.direct_sparsity for name, each in counts.items()}
    return direct | {f"sparsity/effective_sparsity{name}": each.effective_sparsity for name, each in counts.items()}


def test_values_to_log() -> None:
    analysis = analyze_cut(3)
    assert analysis.log_dict() == expected_layers(3, "")
    assert list(analysis.log_dict())[:3] == [
        "sparsity/direct_sparsity", "sparsity/effective_sparsity", "sparsity/direct_sparsity/0",
    ]  # fmt: skip
    assert analysis.log_dict(prefix="", per_layer=False) == expected(3)


def lightning_module() -> Any:
    import lightning.pytorch as lightning

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)  # type: ignore[no-any-return]

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            cut_one_neuron(self.net[0], self.global_step)
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.0)

    return Net()


class Recorded:
    """Values that reached the logger, by step."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def keep(self, values: dict[str, Any]) -> None:
        logged = {name: float(value) for name, value in values.items() if "sparsity" in name}
        self.rows += [logged] if logged else []


def run_lightning(callback: Any, epochs: int = 2) -> Recorded:
    import lightning.pytorch as lightning
    from lightning.pytorch.loggers.logger import DummyLogger

    recorded = Recorded()

    class Listening(DummyLogger):
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            recorded.keep(metrics)

    data = TensorDataset(torch.randn(STEPS * 4, WIDTH), torch.randint(0, 2, (STEPS * 4,)))
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=Listening(), callbacks=[callback], log_every_n_steps=1,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(lightning_module(), DataLoader(data, batch_size=4))
    return recorded


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("every", "cuts"), [(None, [4, 8]), (3, [3, 6])])
@pytest.mark.parametrize("submodule", ["", "net"])
def test_lightning_logs_both_sparsities(every: int | None, cuts: list[int], submodule: str) -> None:
    from effsparse_cli.training.lightning import SparsityCallback

    callback = SparsityCallback(torch.zeros(1, WIDTH), every_n_steps=every, submodule=submodule)
    recorded = run_lightning(callback)
    assert recorded.rows == [pytest.approx(expected(cut)) for cut in cuts]
    assert callback.logged.analyzer is not None
    assert callback.logged.analyzer.traces == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", [None, 4])
def test_lightning_logs_layers(every: int | None) -> None:
    from effsparse_cli.training.lightning import SparsityCallback

    options: dict[str, Any] = {"every_n_steps": every, "prefix": "sparsity/", "per_layer": True}
    recorded = run_lightning(SparsityCallback(torch.zeros(1, WIDTH), **options), epochs=1)
    assert recorded.rows == [pytest.approx(expected_layers(4, "net."))]


class Items(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return STEPS * 4

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {"x": torch.ones(WIDTH), "labels": torch.tensor(i % 2)}


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        y = self.net(x)
        return {"logits": y} if labels is None else {"loss": nn.functional.cross_entropy(y, labels), "logits": y}


def run_trainer(folder: Path, **options: Any) -> tuple[Recorded, Any]:
    import transformers

    from effsparse_cli.training.huggingface import SparsityCallback

    class Cutting(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            cut_one_neuron(model.net[0], state.global_step)

    arguments = transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=2, per_device_train_batch_size=4, learning_rate=0.0,
        report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = transformers.Trainer(Classifier(), arguments, train_dataset=Items(), callbacks=[Cutting()])
    callback = SparsityCallback(trainer, {"x": torch.zeros(1, WIDTH)}, **options)
    trainer.add_callback(callback)
    trainer.train()
    recorded = Recorded()
    for row in trainer.state.log_history:
        recorded.keep(row)
    return recorded, callback


@pytest.mark.parametrize(("every", "cuts"), [(None, [4, 8]), (3, [3, 6])])
def test_transformers_trainer_logs_both_sparsities(every: int | None, cuts: list[int], tmp_path: Path) -> None:
    recorded, callback = run_trainer(tmp_path, every_n_steps=every)
    assert recorded.rows == [pytest.approx(expected(cut)) for cut in cuts]
    assert callback.logged.analyzer is not None
    assert callback.logged.analyzer.traces == 1


def test_transformers_trainer_logs_layers(tmp_path: Path) -> None:
    recorded, _ = run_trainer(tmp_path, prefix="sparsity/", per_layer=True)
    assert recorded.rows == [pytest.approx(expected_layers(cut, "net.")) for cut in (4, 8)]


@pytest.mark.parametrize(
    ("module", "absent", "install"),
    [
        (
            "effsparse_cli.training.lightning",
            ["lightning", "lightning.pytorch", "pytorch_lightning"],
            "install lightning",
        ),
        ("effsparse_cli.training.huggingface", ["transformers"], "install transformers"),
    ],
)
def test_a_missing_library_is_named(
    module: str, absent: list[str], install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=install):
        __import__(module)


def test_pytorch_lightning_works_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import pytorch_lightning

    for name in ("effsparse_cli.training.lightning", "lightning.pytorch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from effsparse_cli.training.lightning import SparsityCallback

    assert issubclass(SparsityCallback, pytorch_lightning.Callback)


def test_steps_must_be_positive() -> None:
    with pytest.raises(UsageError, match="every_n_steps is 0"):
        SparsityLog(torch.zeros(1), every_n_steps=0, options={})
