"""A graph network that finds the communities of a graph."""

from __future__ import annotations

import torch
from torch import nn

from bench.pairs.data import graph


def train(steps: int = 100) -> float:
    features, sources, targets, labels = (torch.from_numpy(each) for each in graph())
    torch.manual_seed(0)
    first, second, output = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 2)
    counts = torch.bincount(targets, minlength=len(features)).clamp(min=1)[:, None]

    def gathered(x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros_like(x).index_add(0, targets, x[sources]) / counts

    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *output.parameters()], lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        hidden = first(gathered(features)).relu()
        hidden = second(gathered(hidden)).relu()
        loss = nn.functional.cross_entropy(output(hidden), labels)
        loss.backward()
        optimizer.step()
    return float(loss.item())
