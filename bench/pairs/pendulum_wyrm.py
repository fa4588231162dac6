"""Torques that swing a pendulum up, by the gradient through its motion."""

from __future__ import annotations

import math

import numpy as np

import wyrm as wy


def train(steps: int = 100) -> float:
    torques = wy.Parameter(np.zeros(100), name="torques")

    def move(state: wy.Node, torque: wy.Node) -> tuple[wy.Node, wy.Node]:
        angle = state[0]
        speed = state[1] + 0.05 * (-9.81 * angle.sin() + torque.tanh() * 8.0)
        state = wy.stack([angle + 0.05 * speed, speed])
        return state, (state[0] - math.pi).square() + 0.1 * speed.square()

    _, costs = wy.scan(move, wy.Constant(np.zeros(2)), torques)
    loss = costs.mean()
    program = wy.compile(loss, wy.optim.SGD([torques], learning_rate=0.2))
    for _ in range(steps):
        value = program()
    return float(value)
