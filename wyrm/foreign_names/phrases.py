"""Answers that several tables share, and the function that builds the tables."""

from __future__ import annotations

from collections.abc import Mapping


def each(answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers by name; each key of `answers` holds several names, separated by spaces."""
    return {name: answer for names, answer in answers.items() for name in names.split()}


CPU = "wyrm computes on the CPU: leave it out"
NO_HOOKS = "wyrm has no hooks: use wy.grad(loss, x) for the gradient of any node"
NO_SORTING = "wyrm has no sorting or selection: compute it with NumPy on x.forward()"
NO_ROUNDING = "wyrm has no rounding, because its gradient is zero: compute it with NumPy on x.forward()"
NO_ARCS = "wyrm has no inverse trigonometric or hyperbolic functions: write an op of your own, as in wy.Unary"
NO_ALGEBRA = "wyrm has no linear algebra but products: compute it with NumPy on x.forward()"
NO_CONVOLUTIONS = "wyrm has no convolutions or pooling"
NO_CUMULATION = "wyrm has no cumulative sums or products: use wy.scan(step, start, x)"
REPEAT = "use x.broadcast_to(shape), or wy.concatenate([x, x], axis=0)"
IMMUTABLE = "nodes are immutable: use x = x + y and the like, or p.set(array) to change a parameter"
MASKED = "multiply by a mask, or use wy.where(mask, x, 0.0)"
CLONE = "nodes are immutable and need no copy: leave it out"
LEAVES = (
    "use wy.Parameter(value) for trained values, wy.Constant(value) for fixed ones, and wy.Input(dims=dims) for data"
)
GRADIENT_MODE = "leave it out: a gradient is computed only where wy.grad or backward asks for it"
NONE_BUT_FLOATS = "wyrm has float32 and float64: use x.astype(np.float32)"
INTEGERS = "use wy.IndexInput or wy.IndexConstant for integers, which select rows and have no arithmetic"
RANDOM = (
    "use wy.Constant(np.random.default_rng(0).normal(size=shape)), or wy.random.index for indices drawn anew each step"
)
FIT = "use wy.compile(loss, optimizer).epoch({x: column}, batch_size=32)"
