"""Kernels with loops: programs with their gradients, alone, vs `jax.value_and_grad` of scans, and vs those by hand."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# Bodies of kernels have no types.

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import wyrm as wy
from bench.first_step import empty_cache
from bench.harness import Case, Contender, Measurement, timed
from tests.ops.adjoints.programs import (
    PROGRAMS,
    bodies,
    histogram,
    mandelbrot,
    overwritten_and_read,
    product,
    raymarch,
)
from wyrm.ops import ctc
from wyrm.ops.kernels import sums
from wyrm.ops.recurrence import gru, lstm

# Kernels of arrays, called with what stands for these in kernels of users.
_ctc_kernel: Any = ctc.ctc_kernel
_lstm_forward: Any = lstm.step_forward
_lstm_backward: Any = lstm.step_backward
_gru_forward: Any = gru.step_forward
_gru_backward: Any = gru.step_backward
_accumulated: Any = sums.accumulated


class Rows(wy.Dim): ...


class Columns(wy.Dim): ...


class Inner(wy.Dim): ...


class Bins(wy.Dim): ...


def moved(
    places: wy.Tensor[Rows, Columns], speeds: wy.Tensor[Rows, Columns], masses, dt, steps,
    after: wy.Written[Rows, Columns], speeds_after: wy.Written[Rows, Columns],
):  # fmt: skip
    for i in range(places.shape[0]):
        for axis in range(places.shape[1]):
            after[i, axis] = places[i, axis]
            speeds_after[i, axis] = speeds[i, axis]
    bodies(after, speeds_after, masses, dt, steps)


def shaded(origins: wy.Tensor[Rows], radius, out: wy.Written[Rows]):
    raymarch(origins, radius, out)


def counted(x, places, weights: wy.Tensor[Bins], out: wy.Written[Bins]):
    histogram(x, places, weights, out)


def multiplied(a: wy.Tensor[Rows, Inner], b: wy.Tensor[Inner, Columns], out: wy.Written[Rows, Columns]):
    product(a, b, out)


def escaped(real: wy.Tensor[Rows], imaginary: wy.Tensor[Rows], out: wy.Written[Rows]):
    mandelbrot(real, imaginary, out)


def overwritten(x: wy.Tensor[Rows], out: wy.Written[Rows]):
    work = np.zeros(x.size)
    for i in range(x.size):
        work[i] = x[i]
    overwritten_and_read(work, out)


# What stands in place of programs that write to arrays that they are given, with how many of these.
_WRITING: dict[str, tuple[Callable[..., Any], int]] = {
    "bodies": (moved, 0), "raymarch": (shaded, 1), "histogram": (counted, 1), "product": (multiplied, 1),
    "mandelbrot": (escaped, 1), "overwritten_and_read": (overwritten, 1),
}  # fmt: skip
_SIZES = {
    "soft_dtw": 100, "hidden_markov": 500, "kalman": 10_000, "edit_distance": 100, "integrate_and_fire": 20_000,
    "binomial_tree": 300, "bodies": 40, "raymarch": 500, "histogram": 10_000, "product": 60, "mandelbrot": 1_000,
    "overwritten_and_read": 10_000, "changed_in_loop": 100,
}  # fmt: skip


def graph(name: str) -> tuple[wy.Node, list[wy.Parameter]]:
    """Return a program's result, a sum where it has many numbers, and what it is differentiated by."""
    function, make = PROGRAMS[name]
    arguments = make(_SIZES[name])
    function, written = _WRITING.get(name, (function, 0))
    leaves: list[Any] = [
        wy.Parameter(np.asarray(each)) if np.asarray(each).dtype.kind == "f" else each
        for each in arguments[: len(arguments) - written]
    ]
    found: Any = wy.kernel(function)(*leaves)
    results = found if isinstance(found, tuple) else (found,)
    total = results[0].sum() if results[0].dims else results[0]
    for each in results[1:]:
        total = total + each.sum()
    return total, [each for each in leaves if isinstance(each, wy.Parameter)]


def _native(name: str, with_gradient: bool) -> Callable[[], Measurement]:
    total, leaves = graph(name)
    program = wy.compile([total, *(wy.grad(total, each) for each in leaves)] if with_gradient else [total])
    return timed(program)


# --- beside scans of JAX ----------------------------------------------------------------------------------------------


def _scans(jax: Any) -> dict[str, Callable[..., Any]]:
    """Return programs as scans."""
    jnp, scan = jax.numpy, jax.lax.scan

    def soft_dtw(costs: Any, gamma: Any) -> Any:
        def row(above: Any, costs: Any) -> tuple[Any, None]:
            def cell(left: Any, given: Any) -> tuple[Any, Any]:
                cost, diagonal, up = given
                options = jnp.stack([diagonal, up, left])
                found = cost - gamma * jax.scipy.special.logsumexp(-options / gamma)
                return found, found

            _, cells = scan(cell, 1e10, (costs, above[:-1], above[1:]))
            return jnp.concatenate([jnp.full(1, 1e10), cells]), None

        first = jnp.full(costs.shape[1] + 1, 1e10).at[0].set(0.0)
        return scan(row, first, costs)[0][-1]

    def hidden_markov(start: Any, moves: Any, scores: Any) -> Any:
        def step(before: Any, scores: Any) -> tuple[Any, None]:
            return jax.scipy.special.logsumexp(before[:, None] + moves, axis=0) + scores, None

        return jax.scipy.special.logsumexp(scan(step, start + scores[0], scores[1:])[0])

    def kalman(observed: Any, noise: Any, drift: Any, gain: Any) -> Any:
        def step(state: Any, seen: Any) -> tuple[Any, None]:
            mean, variance, loss = state
            mean, variance = gain * mean, gain * gain * variance + drift
            innovation, spread = seen - mean, variance + noise
            share = variance / spread
            loss = loss + 0.5 * (jnp.log(spread) + innovation * innovation / spread)
            return (mean + share * innovation, variance * (1.0 - share), loss), None

        return scan(step, (0.0, 1.0, 0.0), observed)[0][2]

    return {"soft_dtw": soft_dtw, "hidden_markov": hidden_markov, "kalman": kalman}


def _jax(name: str) -> Callable[[], Measurement]:
    import jax

    jax.config.update("jax_enable_x64", True)
    arguments = [jax.numpy.asarray(each) for each in PROGRAMS[name][1](_SIZES[name])]
    places = tuple(range(len(arguments)))
    call = jax.jit(jax.value_and_grad(_scans(jax)[name], places))
    return timed(lambda: jax.block_until_ready(call(*arguments)))


_FIRST = """
import json, os, sys, time
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
from bench import kernels
start = time.perf_counter()
kernels.first_call({name!r}, {peer!r})
print(json.dumps({{"seconds": time.perf_counter() - start}}))
"""


def first_call(name: str, peer: str) -> None:
    """Compute a value and a gradient once, from the import of the library on."""
    if peer == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        arguments = [jax.numpy.asarray(each) for each in PROGRAMS[name][1](_SIZES[name])]
        jax.block_until_ready(jax.jit(jax.value_and_grad(_scans(jax)[name], tuple(range(len(arguments)))))(*arguments))
        return
    total, leaves = graph(name)
    wy.compile([total, *(wy.grad(total, each) for each in leaves)])()


# --- beside adjoints by hand ------------------------------------------------------------------------------------------


@wy.kernel
def soft_dtw_by_hand(
    costs: wy.Tensor[Rows, Columns], gamma, distance: wy.Written[1], gradient: wy.Written[Rows, Columns]  # type: ignore[valid-type]  # an axis of one
):  # fmt: skip
    n, m = costs.shape[0], costs.shape[1]
    table, d_table = np.full((n + 1, m + 1), 1e10), np.zeros((n + 1, m + 1))
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = table[i - 1, j - 1], table[i - 1, j], table[i, j - 1]
            least = min(a, min(b, c))
            total = math.exp((least - a) / gamma) + math.exp((least - b) / gamma) + math.exp((least - c) / gamma)
            table[i, j] = costs[i - 1, j - 1] + least - gamma * math.log(total)
    distance[0] = table[n, m]
    d_table[n, m] = 1.0
    for i in range(n, 0, -1):
        for j in range(m, 0, -1):
            g, soft = d_table[i, j], table[i, j] - costs[i - 1, j - 1]
            gradient[i - 1, j - 1] = g
            d_table[i - 1, j - 1] += g * math.exp((soft - table[i - 1, j - 1]) / gamma)
            d_table[i - 1, j] += g * math.exp((soft - table[i - 1, j]) / gamma)
            d_table[i, j - 1] += g * math.exp((soft - table[i, j - 1]) / gamma)


def _soft_dtw(by_hand: bool) -> list[wy.Node]:
    costs = wy.Parameter(np.random.default_rng(0).random((100, 101)))
    if by_hand:
        return list(soft_dtw_by_hand(costs, 0.5))
    loss = wy.kernel(PROGRAMS["soft_dtw"][0])(costs, 0.5)
    return [loss, wy.grad(loss, costs)]


@wy.kernel(room=1 << 22)  # the data tells how many steps there are
def aligned(scores: wy.Tensor[Rows, Columns, Inner], labels, steps, lengths, blank, out: wy.Written[Rows]):
    forward = np.zeros((scores.shape[1] + 1, 2 * labels.shape[1] + 1))
    _ctc_kernel(scores, labels, steps, lengths, blank, forward, out)


def _ctc(by_hand: bool) -> list[wy.Node]:
    random = np.random.default_rng(0)
    scores = wy.Parameter(np.log(random.dirichlet(np.ones(32), (8, 100))))
    labels, steps, lengths = random.integers(1, 32, (8, 20)), np.full(8, 100), np.full(8, 20)
    if by_hand:
        losses: Any = wy.losses.ctc(scores, labels, steps, lengths, reduction="none")
    else:
        losses = aligned(scores, labels, steps, lengths, 0)
    loss = losses.sum()
    return [loss, wy.grad(loss, scores)]


@wy.kernel
def lstm_step(
    input_gates: wy.Tensor[Rows], forget_gates, candidates, output_gates, previous, hidden: wy.Written[Rows],
    cells: wy.Written[Rows],
):  # fmt: skip
    size = input_gates.size
    i, f, c, o, tanh_cells = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    for k in range(size):
        i[k], f[k], c[k], o[k] = input_gates[k], forget_gates[k], candidates[k], output_gates[k]
    _lstm_forward(i, f, c, o, tanh_cells, previous, hidden, cells)


@wy.kernel
def lstm_step_by_hand(
    input_gates: wy.Tensor[Rows], forget_gates, candidates, output_gates, previous, d_hidden, d_cells,
    hidden: wy.Written[Rows], cells: wy.Written[Rows], d_i: wy.Written[Rows], d_f: wy.Written[Rows],
    d_c: wy.Written[Rows], d_o: wy.Written[Rows], d_previous: wy.Written[Rows],
):  # fmt: skip
    size = input_gates.size
    i, f, c, o, tanh_cells = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    for k in range(size):
        i[k], f[k], c[k], o[k] = input_gates[k], forget_gates[k], candidates[k], output_gates[k]
        d_previous[k] = d_cells[k]
    _lstm_forward(i, f, c, o, tanh_cells, previous, hidden, cells)
    _lstm_backward(i, f, c, o, tanh_cells, previous, d_hidden, d_i, d_f, d_c, d_o, d_previous)


@wy.kernel
def gru_step(
    reset_gates: wy.Tensor[Rows], update_gates, recurrent, previous, projected, hidden: wy.Written[Rows]
):  # fmt: skip
    size = reset_gates.size
    r, u, candidates = np.zeros(size), np.zeros(size), np.zeros(size)
    for k in range(size):
        r[k], u[k] = reset_gates[k], update_gates[k]
    _gru_forward(r, u, recurrent, candidates, previous, hidden, projected)


@wy.kernel
def gru_step_by_hand(
    reset_gates: wy.Tensor[Rows], update_gates, recurrent, previous, projected, d_hidden, hidden: wy.Written[Rows],
    d_r: wy.Written[Rows], d_u: wy.Written[Rows], d_c: wy.Written[Rows], d_recurrent: wy.Written[Rows],
    d_previous: wy.Written[Rows],
):  # fmt: skip
    size = reset_gates.size
    row = np.zeros(5 * reset_gates.size)
    for k in range(size):
        row[k], row[size + k], row[2 * size + k] = reset_gates[k], update_gates[k], recurrent[k]
        row[4 * size + k] = previous[k]
    _gru_forward(
        row[:size], row[size : 2 * size], row[2 * size : 3 * size], row[3 * size : 4 * size], row[4 * size :], hidden,
        projected,
    )  # fmt: skip
    _gru_backward(row, d_hidden, d_r, d_u, d_c, d_recurrent, d_previous)


def _step(by_hand: bool, derived: Any, written: Any, operands: int, results: int) -> list[wy.Node]:
    random = np.random.default_rng(0)
    leaves = [wy.Parameter(random.normal(size=2000)) for _ in range(operands)]
    cotangents = [wy.Parameter(random.normal(size=2000)) for _ in range(results)]
    if by_hand:
        return list(written(*leaves, *cotangents))
    found = derived(*leaves)
    states = found if isinstance(found, tuple) else (found,)
    loss = sum((x * d).sum() for x, d in zip(states, cotangents, strict=True))
    return [*states, *(wy.grad(loss, each) for each in leaves)]


@wy.kernel
def normalized(
    x: wy.Tensor[Rows, Columns], weight: wy.Tensor[Columns], bias, out: wy.Written[Rows, Columns]
):  # fmt: skip
    for i in range(x.shape[0]):
        total, squares = 0.0, 0.0
        for j in range(x.shape[1]):
            total = _accumulated(total, x[i, j])
        mean = total / x.shape[1]
        for j in range(x.shape[1]):
            squares = _accumulated(squares, (x[i, j] - mean) * (x[i, j] - mean))
        inverse = 1.0 / math.sqrt(squares / x.shape[1] + 1e-5)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * inverse * weight[j] + bias[j]


def _normalization(by_hand: bool) -> list[wy.Node]:
    random = np.random.default_rng(0)
    x, factors = wy.Parameter(random.normal(size=(256, 512))), wy.Parameter(random.normal(size=(256, 512)))
    layer: Any = wy.nn.LayerNorm(512, dtype=np.float64)
    found: Any = layer(x) if by_hand else normalized(x, layer.weight, layer.bias)
    loss = (found * factors).sum()
    return [loss, *(wy.grad(loss, each) for each in (x, layer.weight, layer.bias))]


@wy.kernel
def pooled(x: wy.Tensor[Rows, Columns], like: wy.IndexTensor[Inner], out: wy.Written[Rows, Inner]):
    for i in range(x.shape[0]):
        for j in range(like.size):
            out[i, j] = max(x[i, 2 * j], x[i, 2 * j + 1])


def _pooling(by_hand: bool) -> list[wy.Node]:
    random = np.random.default_rng(0)
    x, factors = wy.Parameter(random.normal(size=(256, 512))), wy.Parameter(random.normal(size=(256, 256)))
    found: Any = wy.nn.max_pool1d(x[:, None], 2, 2)[:, 0] if by_hand else pooled(x, np.zeros(256, np.int64))
    loss = (found * factors).sum()
    return [loss, wy.grad(loss, x)]


BY_HAND: dict[str, Callable[[bool], list[wy.Node]]] = {
    "soft-DTW": _soft_dtw,
    "CTC": _ctc,
    "step of an LSTM": partial(_step, derived=lstm_step, written=lstm_step_by_hand, operands=5, results=2),
    "step of a GRU": partial(_step, derived=gru_step, written=gru_step_by_hand, operands=5, results=1),
    "normalization": _normalization,
    "pooling": _pooling,
}


def _compiled(make: Callable[[bool], list[wy.Node]], by_hand: bool) -> Callable[[], Measurement]:
    return timed(wy.compile(make(by_hand)))


def cases() -> list[Case]:
    """Each program alone, and with its gradient; and beside other gradients."""
    found = []
    for name in PROGRAMS:
        words = name.replace("_", " ")
        alone: dict[str, Contender] = {
            "wyrm": partial(_native, name, True), "the value alone": partial(_native, name, False)
        }  # fmt: skip
        goal = "the value and the gradient in 6 times the value"
        found.append(Case("kernels", words, alone, goal=goal, other_work=["the value alone"]))
    for name in ("soft_dtw", "hidden_markov", "kalman"):
        words = name.replace("_", " ")
        beside: dict[str, Contender] = {"wyrm": partial(_native, name, True), "jax": partial(_jax, name)}
        found.append(Case("kernels", f"{words} beside a scan", beside, floors={"jax": 2.0}))
        first: dict[str, Contender] = {
            peer: partial(empty_cache, _FIRST.format(name=name, peer=peer)) for peer in ("wyrm", "jax")
        }
        found.append(Case("kernels", f"{words}, first call", first, floors={"jax": 5.0}, rounds=3, quick=False))
    for words, make in BY_HAND.items():
        pair: dict[str, Contender] = {
            "wyrm": partial(_compiled, make, False),
            "by hand": partial(_compiled, make, True),
        }
        floors = {"by hand": 1 / 1.2} if words in ("soft-DTW", "CTC", "step of an LSTM") else {}
        found.append(Case("kernels", f"{words} beside one by hand", pair, floors=floors))
    return found
