"""Functions: calls of `value_and_grad` vs JAX jit, autograd and MyGrad; a long scan; tracing 1,000 operations."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import wyrm as wy
from bench.harness import Case, Measurement, timed

ROWS, FEATURES, DIMENSIONS, OPERATIONS = 569, 30, 100, 1000
STEPS, WIDTH = 1000, 32
_random = np.random.default_rng(0)
_X = _random.standard_normal((ROWS, FEATURES))
_LABELS = np.where(_random.random(ROWS) < 0.6, 1.0, -1.0)
_WEIGHTS = 0.1 * _random.standard_normal(FEATURES)
_POINT = _random.uniform(-1.0, 1.0, DIMENSIONS)


def logistic(weights: Any, x: Any, labels: Any, xp: Any) -> Any:
    """Return the mean loss of a penalized logistic regression; labels are 1 and -1."""
    return xp.mean(xp.logaddexp(0.0, -labels * (x @ weights))) + 0.01 * xp.sum(weights * weights)


def rosenbrock(x: Any, xp: Any) -> Any:
    """Return Rosenbrock's function of a vector of any length."""
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0)


def _with_xp(function: Callable[..., Any], xp: Any) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments, xp)


def _wyrm(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Measurement]:
    if function is logistic:
        traced: Any = wy.function(
            lambda w, x, y: (-y * (x @ w)).softplus().mean() + 0.01 * (w * w).sum(), engine="native"
        )
    else:
        traced = wy.function(_with_xp(function, np), engine="native")
    call = traced.value_and_grad()
    return timed(lambda: call(*arguments))


def _jax(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Measurement]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    call = jax.jit(jax.value_and_grad(_with_xp(function, jnp)))
    first, *data = arguments
    held = tuple(map(jnp.asarray, data))  # data stays on the device; weights are passed on each call

    def work() -> None:
        value, gradient = call(first, *held)
        float(value), np.asarray(gradient)

    return timed(work)


def _autograd(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Measurement]:
    import autograd
    import autograd.numpy as anp

    call = autograd.value_and_grad(_with_xp(function, anp))
    return timed(lambda: call(*arguments))


def _mygrad(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Measurement]:
    mygrad: Any = importlib.import_module("mygrad")

    def work() -> None:
        first, *data = arguments
        tensor = mygrad.tensor(first)
        function(tensor, *data, mygrad).backward()

    return timed(work)


def _logistic_by_hand() -> Callable[[], Measurement]:
    """Return the value and the gradient of `logistic` as few calls of NumPy, with the labels multiplied in before."""
    signed = -_LABELS[:, None] * _X
    columns = np.ascontiguousarray(signed.T)

    def work() -> tuple[Any, Any]:
        power = np.exp(signed @ _WEIGHTS)
        total = 1.0 + power
        value = np.log(total).sum() / ROWS + 0.01 * (_WEIGHTS @ _WEIGHTS)
        return value, columns @ (power / total) / ROWS + 0.02 * _WEIGHTS

    return timed(work)


def _trace(xp: Any, gradient: Callable[[Any], Any]) -> Callable[[], Measurement]:
    x = np.ones(16, np.float32)

    def chain(h: Any) -> Any:
        for _ in range(OPERATIONS // 2):
            h = xp.tanh(h * x)
        return h.sum()

    return timed(lambda: gradient(lambda h: chain(h))(x))


def _recurrent(weights: tuple[Any, ...], xs: Any, scan: Callable[..., Any], tanh: Callable[[Any], Any]) -> Any:
    """Return the sum of squares of a recurrent cell's states."""
    recurrent, inward, bias = weights

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        state = tanh(state @ recurrent + x @ inward + bias)
        return state, state

    _, states = scan(step, np.zeros(WIDTH, np.float32), xs)
    return (states * states).sum()


_CELL = tuple(
    (0.1 * _random.standard_normal(shape)).astype(np.float32) for shape in ((WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,))
)
_SEQUENCE = _random.standard_normal((STEPS, WIDTH)).astype(np.float32)


def _wyrm_scan() -> Callable[[], Measurement]:
    call = wy.function(lambda *given: _recurrent(given[:-1], given[-1], wy.scan, np.tanh), engine="native")
    gradient = call.value_and_grad(wrt=(0, 1, 2))
    return timed(lambda: gradient(*_CELL, _SEQUENCE))


def _jax_scan() -> Callable[[], Measurement]:
    import jax
    import jax.numpy as jnp

    call = jax.jit(jax.value_and_grad(lambda weights, xs: _recurrent(weights, xs, jax.lax.scan, jnp.tanh)))
    weights, xs = tuple(map(jnp.asarray, _CELL)), jnp.asarray(_SEQUENCE)
    return timed(lambda: jax.block_until_ready(call(weights, xs)))


def _small(gradient: bool) -> Callable[[], Measurement]:
    function = wy.function(lambda x, y: (x * y + 1.0).tanh().sum(), engine="native")
    call: Any = function.value_and_grad() if gradient else function
    data = np.ones(4, np.float32)
    return timed(lambda: call(data, data))


def _jax_small(gradient: bool) -> Callable[[], Measurement]:
    import jax
    import jax.numpy as jnp

    def function(x: Any, y: Any) -> Any:
        return jnp.tanh(x * y + 1.0).sum()

    call: Any = jax.jit(jax.value_and_grad(function) if gradient else function)
    data = np.ones(4, np.float32)
    return timed(lambda: jax.block_until_ready(call(data, data)))


def _wyrm_trace() -> Callable[[], Measurement]:
    return _trace(np, lambda function: wy.function(function).grad().trace)


def _jax_trace() -> Callable[[], Measurement]:
    import jax
    import jax.numpy as jnp

    return _trace(jnp, lambda function: jax.make_jaxpr(jax.grad(function)))


def cases() -> list[Case]:
    """Two functions, a recurrent cell over many steps, and the time to trace and differentiate a long function."""
    peers = {"wyrm": _wyrm, "jax jit": _jax, "autograd": _autograd, "mygrad": _mygrad}
    floors = {"jax jit": 1.0, "autograd": 5.0, "mygrad": 5.0}
    work: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        (f"logistic regression, {ROWS} x {FEATURES}", logistic, (_WEIGHTS, _X, _LABELS)),
        (f"Rosenbrock, {DIMENSIONS} dimensions", rosenbrock, (_POINT,)),
    ]
    found = [
        Case("functions", name, {who: partial(make, function, arguments) for who, make in peers.items()}, floors=floors)
        for name, function, arguments in work
    ]
    found[0] = replace(found[0], contenders={**found[0].contenders, "numpy, by hand": _logistic_by_hand})
    traced = {"wyrm": _wyrm_trace, "jax": _jax_trace}
    loops = {"wyrm": _wyrm_scan, "jax lax.scan": _jax_scan}
    small = [
        Case("functions", name, {"wyrm": partial(_small, gradient), "jax": partial(_jax_small, gradient)}, most=most)
        for name, gradient, most in (
            ("a native function of 4 nodes", False, 1.2e-6),
            ("value_and_grad of a native function of 4 nodes", True, 1.5e-6),
        )
    ]
    return [
        *found,
        *small,
        Case(
            "functions", f"scan of a recurrent cell, {STEPS} steps, width {WIDTH}", loops, floors={"jax lax.scan": 2.0}
        ),
        Case("functions", f"trace and differentiate {OPERATIONS} ops", traced, most=7e-3),
    ]
