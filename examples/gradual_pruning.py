"""Prune while training: every epoch, prune a little further by magnitude, and keep pruned weights at zero in between.

`target` is the effective sparsity, so the network that is left at the end has no dead connections.
"""

import torch
from torch import nn

import effsparse

EPOCHS, FINAL_SPARSITY = 8, 0.98


def made_up_digits(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy images of ten patterns, 28x28 as in MNIST, and their labels."""
    labels = torch.randint(10, (count,))
    return torch.rand(10, 4, 4).kron(torch.ones(7, 7))[labels] + 0.2 * torch.randn(count, 28, 28), labels


def main() -> None:
    torch.manual_seed(0)
    images, labels = made_up_digits(2000)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)
    )
    example_input = images[:1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    analyzer = effsparse.Analyzer(model, example_input)
    for epoch in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        # Few weights are left at the end, so the first steps are the largest.
        if epoch < EPOCHS - 2:
            target = FINAL_SPARSITY * (1 - (1 - (epoch + 1) / (EPOCHS - 2)) ** 3)
            pruned = effsparse.prune(model, example_input, target, from_masks=epoch > 0, form="zeros")
            effsparse.hold(model, pruned)  # until the next call, under any optimizer
        totals = analyzer().totals
        print(f"epoch {epoch}: loss {loss:.3f}, {totals.active:,} active of {totals.kept:,} kept connections")
    effsparse.finalize(model)
    print(effsparse.analyze(model, example_input))
    torch.save(model, "pruned.pt")


if __name__ == "__main__":
    main()
