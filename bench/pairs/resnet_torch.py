"""A small residual network with batch normalization on images that are shifted at random."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from bench.pairs.data import Array, Labels, stripes


class Shifted(Dataset):  # type: ignore[misc]  # torch is not followed by mypy
    """Images that are moved by up to two pixels each time they are read."""

    def __init__(self, images: Array, labels: Labels) -> None:
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        padded = nn.functional.pad(self.images[row], (2, 2, 2, 2))
        top, left = torch.randint(0, 5, (2,)).tolist()
        _, height, width = self.images[row].shape
        return padded[:, top : top + height, left : left + width], self.labels[row]


class Block(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(narrow, wide, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(wide)
        self.second = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(wide)
        self.shortcut = nn.Conv2d(narrow, wide, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = self.first_norm(self.first(x)).relu()
        sum_: torch.Tensor = (self.second_norm(self.second(inside)) + self.shortcut(x)).relu()
        return sum_


class ResNet(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2))
        self.output = nn.Linear(32, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.norm(self.stem(x)).relu())
        logits: torch.Tensor = self.output(x.mean((2, 3)))
        return logits


def fit(images: Array, labels: Labels, epochs: int, seed: int = 0) -> tuple[ResNet, float]:
    """Return the network after some epochs, and the mean loss of the last."""
    torch.manual_seed(seed)
    network = ResNet(int(labels.max()) + 1)
    loader = DataLoader(Shifted(images, labels), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for _ in range(epochs):
        total = 0.0
        for batch, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(batch), wanted)
            loss.backward()
            optimizer.step()
            rate.step()
            total += loss.item() * len(batch)
    return network, total / len(images)


def predicted(network: ResNet, images: Array) -> Labels:
    """Return the classes that the network gives images, by the statistics of the training."""
    network.eval()
    with torch.no_grad():
        classes: Labels = network(torch.from_numpy(images)).argmax(-1).numpy()
    return classes


def train(epochs: int = 5) -> float:
    return fit(*stripes(), epochs)[1]
