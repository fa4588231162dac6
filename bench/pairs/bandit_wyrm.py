"""A policy that learns the best arm of a bandit (REINFORCE)."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from bench.pairs.data import REWARDS


def train(steps: int = 300) -> float:
    logits = wy.Parameter(np.zeros(4, np.float32), name="logits")
    arms = wy.random.categorical(logits.broadcast_to((32, 4)))
    won = wy.random.bernoulli(32, wy.Constant(REWARDS).take(arms)).astype(np.float32)
    advantage = (won - won.mean()).stop_gradient()
    loss = -(advantage * logits.log_softmax().take(arms)).mean()
    program = wy.compile(loss, wy.optim.Adam([logits], learning_rate=0.05))
    for _ in range(steps):
        program()
    return float((logits.softmax() * REWARDS).sum().forward())
