"""Problems of optimization, dynamics and physics, with loops unrolled; see `statistics`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.problems.problem import Problem

_random = np.random.default_rng(1)


def _normal(*shape: int) -> Any:
    return _random.standard_normal(shape)


def rosenbrock(xp: Any, x: Any) -> Any:
    """Rosenbrock's function (1960) in six dimensions."""
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0)


def rastrigin(xp: Any, x: Any) -> Any:
    """Rastrigin's function (1974), with many local minima."""
    return xp.sum(x * x - 10.0 * xp.cos(2.0 * np.pi * x) + 10.0)


def ackley(xp: Any, x: Any) -> Any:
    """Ackley's function (1987), a narrow minimum in a plain."""
    return -20.0 * xp.exp(-0.2 * xp.sqrt(xp.mean(x * x))) - xp.exp(xp.mean(xp.cos(2.0 * np.pi * x)))


def styblinski(xp: Any, x: Any) -> Any:
    """The Styblinski-Tang function (1990), a quartic in each coordinate."""
    return 0.5 * xp.sum(x**4.0 - 16.0 * x * x + 5.0 * x)


def beale(xp: Any, x: Any) -> Any:
    """Beale's function (1958), a sum of three squares."""
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2.0 + (2.25 - a + a * b * b) ** 2.0 + (2.625 - a + a * b * b * b) ** 2.0


def lotka_volterra(xp: Any, rates: Any, start: Any) -> Any:
    """The Lotka-Volterra equations, integrated by the fourth-order Runge-Kutta method."""

    def slope(state: Any) -> Any:
        prey, hunters = state[0], state[1]
        return xp.stack([rates[0] * prey - rates[1] * prey * hunters, rates[2] * prey * hunters - rates[3] * hunters])

    state, step = start, 0.05
    for _ in range(10):
        first = slope(state)
        second = slope(state + 0.5 * step * first)
        third = slope(state + 0.5 * step * second)
        fourth = slope(state + step * third)
        state = state + step / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
    return xp.sum(state * state)


def pendulum(xp: Any, angle: Any, speed: Any, length: Any) -> Any:
    """The final state of a pendulum, integrated by a symplectic method."""
    for _ in range(20):
        speed = speed - 0.05 * 9.81 / length * xp.sin(angle)
        angle = angle + 0.05 * speed
    return xp.sin(angle) * length + 0.1 * speed * speed


def gravitation(xp: Any, places: Any, speeds: Any) -> Any:
    """Three softened bodies in a plane; their spread after five steps."""
    for _ in range(5):
        apart = xp.expand_dims(places, 0) - xp.expand_dims(places, 1)
        near = xp.sum(apart * apart, axis=-1, keepdims=True) + 0.1
        speeds = speeds + 0.02 * xp.sum(apart / near**1.5, axis=1)
        places = places + 0.02 * speeds
    return xp.sum(places * places) + xp.sum(speeds * speeds)


def fixed_point(xp: Any, weights: Any, bias: Any) -> Any:
    """The fixed point of `x = tanh(W x + b)`."""
    x = 0.0 * bias
    for _ in range(15):
        x = xp.tanh(0.3 * (weights @ x) + bias)
    return xp.sum(x)


def newton_root(xp: Any, a: Any) -> Any:
    """Cube roots by Newton's method."""
    x = a / 2.0 + 0.5
    for _ in range(8):
        x = x - (x * x * x - a) / (3.0 * x * x)
    return xp.sum(x)


def conjugate_gradients(xp: Any, matrix: Any, right: Any) -> Any:
    """The solution of a symmetric system, in as many iterations as equations."""
    system = matrix @ xp.transpose(matrix) + 4.0 * np.eye(4)
    x, residual, direction = 0.0 * right, right, right
    for _ in range(3):
        moved = system @ direction
        square = xp.sum(residual * residual)
        rate = square / xp.sum(direction * moved)
        x = x + rate * direction
        residual = residual - rate * moved
        direction = residual + xp.sum(residual * residual) / square * direction
    return xp.sum(x * x)


def power_iteration(xp: Any, matrix: Any) -> Any:
    """The largest eigenvalue of a symmetric matrix."""
    system = matrix @ xp.transpose(matrix)
    x = np.ones(4)
    for _ in range(6):
        x = system @ x
        x = x / xp.sqrt(xp.sum(x * x))
    return xp.sum(x * (system @ x))


def meta_learning(xp: Any, start: Any, rate: Any) -> Any:
    """The loss after three steps of gradient descent: a gradient through gradients."""
    target = np.array([0.5, -0.25, 1.0])
    x = start
    for _ in range(3):
        bend = xp.tanh(x)
        x = x - rate * (2.0 * (bend - target) * (1.0 - bend * bend))
    return xp.sum((xp.tanh(x) - target) ** 2.0)


def diffusion(xp: Any, rod: Any, rate: Any) -> Any:
    """Heat conduction in a rod with fixed ends."""
    for _ in range(10):
        inner = rod[1:-1] + rate * (rod[2:] - 2.0 * rod[1:-1] + rod[:-2])
        rod = xp.concatenate([rod[:1], inner, rod[-1:]])
    return xp.sum(rod * rod)


def spring_chain(xp: Any, places: Any) -> Any:
    """The energy of masses on springs in a field."""
    stretched = xp.sqrt(xp.sum((places[1:] - places[:-1]) ** 2.0, axis=1) + 1e-3)
    return 0.5 * xp.sum((stretched - 1.0) ** 2.0) + 0.2 * xp.sum(places[:, 1])


def lennard_jones(xp: Any, places: Any) -> Any:
    """The Lennard-Jones energy (1931) of four atoms."""
    total = 0.0
    for i in range(4):
        for j in range(i):
            near = xp.sum((places[i] - places[j]) ** 2.0) + 0.3
            total = total + 4.0 * (near**-6.0 - near**-3.0)
    return total


def brachistochrone(xp: Any, heights: Any) -> Any:
    """The time that a bead takes down a piecewise straight wire, without friction."""
    y = xp.concatenate([np.array([1.0]), heights, np.array([0.0])])
    pieces = xp.sqrt(0.2**2 + (y[1:] - y[:-1]) ** 2.0)
    speeds = xp.sqrt(2.0 * 9.81 * (1.2 - 0.5 * (y[1:] + y[:-1])))
    return xp.sum(pieces / speeds)


PROBLEMS = [
    Problem(rosenbrock, (_normal(6),)),
    Problem(rastrigin, (_normal(4),)),
    Problem(ackley, (_normal(4),)),
    Problem(styblinski, (_normal(5),)),
    Problem(beale, (_normal(2),)),
    Problem(lotka_volterra, (np.array([1.1, 0.4, 0.1, 0.4]), np.array([2.0, 1.0]))),
    Problem(pendulum, (np.array(0.6), np.array(0.1), np.array(1.5))),
    Problem(gravitation, (_normal(3, 2), 0.1 * _normal(3, 2))),
    Problem(fixed_point, (_normal(4, 4), _normal(4))),
    Problem(newton_root, (np.array([0.5, 2.0, 7.0]),)),
    Problem(conjugate_gradients, (_normal(4, 4), _normal(4))),
    Problem(power_iteration, (_normal(4, 4),)),
    Problem(meta_learning, (_normal(3), np.array(0.3))),
    Problem(diffusion, (_normal(8), np.array(0.2))),
    Problem(spring_chain, (_normal(5, 2),)),
    Problem(lennard_jones, (2.0 * _normal(4, 3),)),
    Problem(brachistochrone, (np.array([0.8, 0.6, 0.4, 0.2]),)),
]
