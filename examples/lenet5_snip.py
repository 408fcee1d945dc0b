"""Train LeNet-5 on MNIST, prune it to 99 % effective sparsity by SNIP with ERK, fine-tune, repair, compact, save it."""

import os
import sys
from collections import OrderedDict

import torch
from torch import nn

import effsparse

torch.manual_seed(0)
if len(sys.argv) == 3:  # the uncompressed files train-images-idx3-ubyte and train-labels-idx1-ubyte
    images, labels = (torch.from_file(file, size=os.path.getsize(file), dtype=torch.uint8) for file in sys.argv[1:])
    images, labels = images[16:].view(-1, 1, 28, 28) / 255, labels[8:].long()
else:  # made-up digits: ten patterns of 4x4 squares, with noise
    labels = torch.randint(10, (2000,))
    images = torch.rand(10, 1, 4, 4).kron(torch.ones(7, 7))[labels] + 0.2 * torch.randn(2000, 1, 28, 28)
names = ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "flatten", "fc1", "relu3", "fc2", "relu4", "fc3"]
layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
layers += [nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
model, x = nn.Sequential(OrderedDict(zip(names, layers, strict=True))), torch.zeros(1, 1, 28, 28)


def train(epochs: int) -> None:
    optimizer, analyzer = torch.optim.AdamW(model.parameters(), lr=3e-3), effsparse.Analyzer(model, x)
    for epoch in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            (loss := nn.functional.cross_entropy(model(images[batch]), labels[batch])).backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss:.3f}", analyzer().log_dict(per_layer=True))


train(2)
pruned = effsparse.prune(model, x, 0.99, method="snip", lsq="erk", data=(images[:512], labels[:512]), form="zeros")
with effsparse.hold(model, pruned):
    train(10)
print(effsparse.repair(model, x), small := effsparse.compact(model, x), sep="\n\n")
torch.save(small.module, "lenet5_small.pt")
