"""A variational autoencoder of pictures of stripes."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.pairs.data import stripes


class Autoencoder(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.mean, self.log_variance = nn.Linear(256, 64), nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder, self.output = nn.Linear(8, 64), nn.Linear(64, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(x).relu()
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        error = (self.output(self.decoder(code).relu()) - x).square().sum(-1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1.0).sum(-1)
        loss: torch.Tensor = (0.5 * error + divergence).mean()
        return loss


def train(epochs: int = 5) -> float:
    pictures, _ = stripes()
    torch.manual_seed(0)
    data = TensorDataset(torch.from_numpy(pictures.reshape(-1, 256)))
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        total = 0.0
        for (images,) in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = model(images)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(images)
    return total / len(data)
