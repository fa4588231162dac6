"""Kernels with loops: thirteen programs with and without their gradients; three of them vs `jax.value_and_grad`."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# Bodies of kernels have no types.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import wyrm as wy
from bench.harness import Case, Measurement, timed
from tests.ops.adjoints.programs import (
    PROGRAMS,
    bodies,
    histogram,
    mandelbrot,
    overwritten_and_read,
    product,
    raymarch,
)


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


def cases() -> list[Case]:
    """Each program alone, and with its gradient."""
    found = []
    for name in PROGRAMS:
        words = name.replace("_", " ")
        contenders = {"wyrm, with the gradient": partial(_native, name, True), "wyrm": partial(_native, name, False)}
        found.append(Case("kernels", words, contenders, goal="the value and the gradient in 6 times the value"))
    return found
