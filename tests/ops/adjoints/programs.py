"""Thirteen kernels with loops as people write them, with arguments: what derivatives are checked and measured on."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Program = tuple[Callable[..., Any], Callable[[int], list[Any]]]


def soft_dtw(costs, gamma):
    table = np.full((costs.shape[0] + 1, costs.shape[1] + 1), 1e10)
    table[0, 0] = 0.0
    for i in range(1, costs.shape[0] + 1):
        for j in range(1, costs.shape[1] + 1):
            a, b, c = table[i - 1, j - 1], table[i - 1, j], table[i, j - 1]
            least = min(a, min(b, c))
            total = math.exp((least - a) / gamma) + math.exp((least - b) / gamma) + math.exp((least - c) / gamma)
            table[i, j] = costs[i - 1, j - 1] + least - gamma * math.log(total)
    return table[costs.shape[0], costs.shape[1]]


def hidden_markov(start, moves, scores):
    states = start.size
    before, after = np.zeros(start.size), np.zeros(start.size)
    for s in range(states):
        before[s] = start[s] + scores[0, s]
    for t in range(1, scores.shape[0]):
        for s in range(states):
            most = before[0] + moves[0, s]
            for q in range(1, states):
                most = max(most, before[q] + moves[q, s])
            total = 0.0
            for q in range(states):
                total += math.exp(before[q] + moves[q, s] - most)
            after[s] = most + math.log(total) + scores[t, s]
        for s in range(states):
            before[s] = after[s]
    most = before[0]
    for s in range(1, states):
        most = max(most, before[s])
    total = 0.0
    for s in range(states):
        total += math.exp(before[s] - most)
    return most + math.log(total)


def kalman(observed, noise, drift, gain):
    mean, variance, loss = 0.0, 1.0, 0.0
    for t in range(observed.size):
        mean = gain * mean
        variance = gain * gain * variance + drift
        innovation = observed[t] - mean
        spread = variance + noise
        loss += 0.5 * (math.log(spread) + innovation * innovation / spread)
        share = variance / spread
        mean += share * innovation
        variance *= 1.0 - share
    return loss


def edit_distance(costs, gap, softness):
    previous, current = np.zeros(costs.shape[1] + 1), np.zeros(costs.shape[1] + 1)
    for j in range(costs.shape[1] + 1):
        previous[j] = gap * j
    for i in range(costs.shape[0]):
        current[0] = gap * (i + 1)
        for j in range(costs.shape[1]):
            a, b, c = previous[j] + costs[i, j], previous[j + 1] + gap, current[j] + gap
            least = min(min(a, b), c)
            total = (
                math.exp((least - a) / softness) + math.exp((least - b) / softness) + math.exp((least - c) / softness)
            )
            current[j + 1] = least - softness * math.log(total)
        for j in range(costs.shape[1] + 1):
            previous[j] = current[j]
    return previous[costs.shape[1]]


def slope_of_spike(v):
    return 1.0 / ((1.0 + abs(10.0 * v)) * (1.0 + abs(10.0 * v)))


def spike(v):
    return 1.0 if v > 0.0 else 0.0


spike.slopes = (slope_of_spike,)  # type: ignore[attr-defined]  # a mark of kernels


def integrate_and_fire(current, leak, threshold):
    v, count = 0.0, 0.0
    for t in range(current.size):
        v = leak * v + current[t]
        fired = spike(v - threshold)
        v = v - fired * threshold
        count += fired * (1.0 + 0.01 * t)
    return count


def binomial_tree(payoff, up, discount):
    value = np.zeros(payoff.size)
    for i in range(payoff.size):
        value[i] = payoff[i]
    for step in range(payoff.size - 1, 0, -1):
        for i in range(step):
            value[i] = max(discount * (up * value[i + 1] + (1.0 - up) * value[i]), payoff[i] * 0.8)
    return value[0]


def bodies(places, speeds, masses, dt, steps):
    for _ in range(steps):
        for i in range(masses.size):
            for j in range(masses.size):
                if i != j:
                    dx, dy = places[j, 0] - places[i, 0], places[j, 1] - places[i, 1]
                    square = dx * dx + dy * dy + 0.1
                    pull = masses[j] / (square * math.sqrt(square))
                    speeds[i, 0] += dt * pull * dx
                    speeds[i, 1] += dt * pull * dy
        for i in range(masses.size):
            places[i, 0] += dt * speeds[i, 0]
            places[i, 1] += dt * speeds[i, 1]


def raymarch(origins, radius, out):
    for r in range(out.size):
        depth, shade = 0.0, 0.0
        for _ in range(64):
            x, y = origins[r], depth * 0.9 - 2.0
            distance = math.sqrt(x * x + y * y) - radius
            if distance < 0.01:
                shade = y * y + 0.3 * x
                break
            if depth > 6.0:
                break
            depth += distance * 0.8
        out[r] = depth + shade


def histogram(x, places, weights, out):
    for i in range(x.size):
        k = places[i]
        share = x[i] * x[i]
        out[k] += weights[k] * share
        out[k + 1] += (1.0 - share) * weights[k]


def product(a, b, out):
    size = 4
    for block in range(0, b.shape[1], size):
        for i in range(a.shape[0]):
            for k in range(a.shape[1]):
                left = a[i, k]
                for j in range(block, min(block + size, b.shape[1])):
                    out[i, j] += left * b[k, j]


def mandelbrot(real, imaginary, out):
    for i in range(real.size):
        x, y, turns = 0.0, 0.0, 0
        while x * x + y * y < 4.0 and turns < 30:
            x, y = x * x - y * y + real[i], 2.0 * x * y + imaginary[i]
            turns += 1
        out[i] = x * x + y * y


def overwritten_and_read(x, out):
    for i in range(1, x.size):
        x[i] = x[i] * x[i - 1]
        x[i - 1] = math.sin(x[i])
        out[i] += x[i] * x[i - 1]


def changed_in_loop(x, limit):
    v = x[0]
    while v * v < limit:
        v = v * v * 0.5 + v * x[1] + 0.1
        if v < 0.0:
            v = -v + 0.2
    return v


def _random(size: int) -> np.random.Generator:
    return np.random.default_rng(size)


PROGRAMS: dict[str, Program] = {
    "soft_dtw": (soft_dtw, lambda n: [_random(n).random((n, n + 1)), 0.5]),
    "hidden_markov": (
        hidden_markov,
        lambda n: [_random(n).normal(size=8), _random(n).normal(size=(8, 8)), _random(n).normal(size=(n, 8))],
    ),
    "kalman": (kalman, lambda n: [_random(n).normal(size=n), 0.5, 0.1, 0.9]),
    "edit_distance": (edit_distance, lambda n: [_random(n).random((n, n)), 0.6, 0.3]),
    "integrate_and_fire": (integrate_and_fire, lambda n: [_random(n).random(n), 0.9, 1.0]),
    "binomial_tree": (binomial_tree, lambda n: [_random(n).random(n), 0.55, 0.99]),
    "bodies": (
        bodies,
        lambda n: [_random(n).normal(size=(n, 2)), _random(n + 1).normal(size=(n, 2)), _random(n).random(n), 0.01, 5],
    ),
    "raymarch": (raymarch, lambda n: [_random(n).uniform(-1, 1, n), 0.8, np.zeros(n)]),
    "histogram": (
        histogram, lambda n: [_random(n).random(n), _random(n).integers(0, 9, n), _random(n).random(10), np.zeros(10)]
    ),
    "product": (
        product, lambda n: [_random(n).normal(size=(n, n)), _random(n + 1).normal(size=(n, n)), np.zeros((n, n))]
    ),
    "mandelbrot": (mandelbrot, lambda n: [_random(n).uniform(-1.5, 0.5, n), _random(n).uniform(-1, 1, n), np.zeros(n)]),
    "overwritten_and_read": (overwritten_and_read, lambda n: [_random(n).uniform(0.5, 1.5, n), np.zeros(n)]),
    "changed_in_loop": (changed_in_loop, lambda n: [np.array([0.3, 1.1]), 50.0 + n]),
}  # fmt: skip
