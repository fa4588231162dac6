"""Answers that several tables share, and the function that builds the tables."""

from __future__ import annotations

from collections.abc import Mapping


def each(answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers by name; each key of `answers` holds several names, separated by spaces."""
    return {name: answer for names, answer in answers.items() for name in names.split()}


def same(package: str, names: str) -> dict[str, str]:
    """Return the answer "use wy.package.name(x)" for each name of `names`, separated by spaces."""
    return {name: f"use wy.{package}{name}(x)" for name in names.split()}


CPU = "native code computes on the CPU; for other devices use wy.compile(..., engine='jax')"
NO_HOOKS = "wyrm has no hooks: use wy.grad(loss, x) for the gradient of any node"
IMMUTABLE = "nodes are immutable: use x = x + y and the like, or p.set(array) to change a parameter"
CLONE = "nodes are immutable and need no copy: leave it out"
LEAVES = (
    "use wy.Parameter(value) for trained values, wy.Constant(value) for fixed ones, and wy.Input(dims=dims) for data"
)
GRADIENT_MODE = "leave it out: a gradient is computed only where wy.grad or backward asks for it"
NONE_BUT_FLOATS = "wyrm has float32 and float64: use x.astype(np.float32)"
INTEGERS = "use wy.IndexInput or wy.IndexConstant for integers, which select rows"
RANDOM = "use wy.random, as in wy.random.normal((2, 3)), which draws anew in each step"
FIT = "compile the loss, then use wy.train.fit(program, {x: column}, epochs=10, batch_size=32)"
DATA_DEPENDENT = "wyrm has no node whose shape depends on the data: use NumPy on x.forward()"
ON_VALUES = "wyrm has no such function: compute it with NumPy on x.forward()"
NO_FOURIER = "wyrm has no Fourier transforms and no complex numbers: compute it with NumPy on x.forward()"
