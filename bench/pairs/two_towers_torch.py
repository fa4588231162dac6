"""Two towers, of users and of items, that learn with the items of a batch as negatives; the share of held-out items."""

from __future__ import annotations

import torch
from torch import nn

from bench.pairs.data import visits


def tower(count: int) -> nn.Module:
    return nn.Sequential(nn.Embedding(count, 32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))


def train(epochs: int = 20) -> float:
    users, items, held_out = (torch.from_numpy(each) for each in visits())
    user_count, item_count = int(users.max()) + 1, int(items.max()) + 1
    torch.manual_seed(0)
    user_tower, item_tower = tower(user_count), tower(item_count)
    log_frequency = torch.log(torch.bincount(items, minlength=item_count) / len(items))
    optimizer = torch.optim.Adam([*user_tower.parameters(), *item_tower.parameters()], lr=1e-2)
    for _ in range(epochs):
        for rows in torch.randperm(len(users)).split(256):
            chosen = items[rows]
            scores = user_tower(users[rows]) @ item_tower(chosen).T - log_frequency[chosen]
            again = (chosen[:, None] == chosen) & ~torch.eye(len(rows), dtype=torch.bool)
            scores = scores.masked_fill(again, -torch.inf)
            loss = nn.functional.cross_entropy(scores, torch.arange(len(rows)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        scores = user_tower(torch.arange(user_count)) @ item_tower(torch.arange(item_count)).T
    scores[users, items] = -torch.inf
    found = scores.topk(10).indices
    return float((found == held_out[:, None]).any(dim=1).float().mean())
