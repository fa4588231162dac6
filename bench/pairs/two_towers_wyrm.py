"""Two towers, of users and of items, with the items of a batch as negatives: the recall of held-out items."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from bench.pairs.data import visits


class Batch(wy.Dim): ...


def train(epochs: int = 20) -> float:
    users, items, held_out = visits()
    user_count, item_count = int(users.max()) + 1, int(items.max()) + 1
    wy.nn.seed(0)

    def tower(rows: wy.IndexInput, count: int) -> wy.Node:
        layers = wy.nn.Linear(32, 32) >> wy.nn.relu >> wy.nn.Linear(32, 32)
        return layers(wy.nn.Embedding(count, 32)(rows))

    user, item = (wy.IndexInput(dims=(Batch(),), name=name) for name in ("user", "item"))
    query, key = tower(user, user_count), tower(item, item_count)
    log_frequency = np.log(np.maximum(np.bincount(items), 1) / len(items)).astype(np.float32)
    loss = wy.losses.info_nce(query, key, items=item, log_frequency=log_frequency)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-2))
    for _ in range(epochs):
        program.epoch({user: users, item: items}, batch_size=256, shuffle=True)
    queries = wy.compile(query)({user: np.arange(user_count)})
    keys = wy.compile(key)({item: np.arange(item_count)})
    seen = wy.data.ItemRows.of_pairs(users, items, user_count=user_count, item_count=item_count)
    return wy.metrics.recall_at_k(wy.recommend(queries, keys, 10, exclude=seen), held_out)
