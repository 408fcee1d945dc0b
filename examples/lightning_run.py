"""Fine-tune a pruned model with Lightning, and log its direct and effective sparsity per layer after every epoch."""

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import effsparse
from effsparse.lightning import SparsityCallback


class Classifier(lightning.LightningModule):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    torch.manual_seed(0)
    labels = torch.randint(10, (512,))
    images = torch.rand(10, 64)[labels] + 0.1 * torch.randn(512, 64)
    network = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    example_input = images[:1]

    pruned = effsparse.prune(network, example_input, 0.9, method="synflow", form="zeros")
    effsparse.hold(network, pruned)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=CSVLogger(".", name="sparsity_log"),
        callbacks=[SparsityCallback(example_input, submodule="network", prefix="sparsity/", per_layer=True)],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(Classifier(network), DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True))
    print(trainer.callback_metrics)
    print(effsparse.analyze(network, example_input))


if __name__ == "__main__":
    main()
