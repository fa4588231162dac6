"""A convolutional network that tells the direction of stripes."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.pairs.data import stripes


class Network(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, kernel_size=3, padding="same")
        self.second = nn.Conv2d(8, 16, kernel_size=3, padding="same")
        self.output = nn.Linear(16 * 4 * 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.first(x).relu(), 2)
        x = nn.functional.max_pool2d(self.second(x).relu(), 2)
        logits: torch.Tensor = self.output(x.flatten(1))
        return logits


def train(epochs: int = 5) -> float:
    pictures, directions = stripes()
    torch.manual_seed(0)
    data = TensorDataset(torch.from_numpy(pictures), torch.from_numpy(directions))
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(epochs):
        total = 0.0
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(images)
    return total / len(data)
