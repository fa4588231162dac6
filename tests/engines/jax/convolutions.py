"""Convolutions for which XLA ends the process or computes other numbers; writes those that differ as JSON.

python -m tests.engines.jax.convolutions
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import wyrm as wy
from wyrm.ops.convolution.convolution import Convolution

# The axes of x and of the weight, and stride, padding and dilation of each spatial axis.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, tuple[int, int], int]]]] = [
    # A window of 2 with stride 2 and padding 1: one axis of these, two, and each rank.
    ((2, 1, 4, 4), (2, 1, 2, 2), [(2, (1, 1), 1), (3, (0, 0), 2)]),
    ((2, 1, 4, 1), (1, 1, 2, 2), [(2, (1, 1), 1), (2, (1, 1), 1)]),
    ((1, 2, 6), (2, 2, 2), [(2, (1, 1), 1)]),
    ((1, 1, 4, 2, 2), (1, 1, 2, 2, 2), [(2, (1, 1), 1), (1, (0, 0), 1), (1, (1, 0), 1)]),
    # Padding beyond the window: the gradient removes elements. With 16 channels or more, XLA computes other numbers.
    ((2, 17, 5), (17, 17, 2), [(1, (3, 0), 1)]),
    ((2, 16, 6, 6), (16, 16, 2, 2), [(1, (3, 0), 1), (1, (3, 0), 1)]),
    ((2, 17, 7), (17, 17, 3), [(1, (4, 1), 1)]),
    # Nothing but padding is read.
    ((1, 1, 1), (1, 1, 1), [(5, (3, 0), 1)]),
    ((1, 1, 1), (1, 1, 1), [(2, (1, 1), 1)]),
    # The derivative by JAX of the gradients: a dilation of size - 1, and an output of as many elements.
    ((1, 1, 3, 3), (1, 1, 2, 2), [(3, (2, 2), 2), (3, (2, 2), 2)]),
    ((1, 1, 3), (1, 1, 2), [(1, (1, 1), 2)]),
]


def differing(number: int) -> list[str]:
    """Return the names of values and gradients of a case that differ from those of NumPy; integers are exact."""
    x_axes, weight_axes, windows = CASES[number]
    random = np.random.default_rng(number)

    def of_integers(leaf: Any, axes: Any) -> Any:
        return leaf(random.integers(-3, 4, axes).astype(np.float32))

    x, weight = of_integers(wy.Parameter, x_axes), of_integers(wy.Parameter, weight_axes)
    stride, padding, dilation = (tuple(each) for each in zip(*windows, strict=True))
    y = Convolution(x, weight, stride=stride, padding=padding, dilation=dilation, groups=1)
    cotangent = of_integers(wy.Parameter, y.shape)
    loss = (y * cotangent).sum()
    by_x, by_weight = wy.grad(loss, [x, weight])
    of_x = (by_x * of_integers(wy.Constant, x_axes)).sum()
    of_weight = (by_weight * of_integers(wy.Constant, weight_axes)).sum()
    targets: dict[str, tuple[Any, list[Any]]] = {
        "loss": (loss, [x, weight, cotangent]),
        "gradient by x": (of_x, [weight, cotangent]),
        "gradient by the weight": (of_weight, [x, cotangent]),
    }
    nodes = {"y": y} | {
        f"{name}, {i}": node for name, target in targets.items() for i, node in enumerate(wy.grad(*target))
    }
    expected = dict(zip(nodes, wy.run(list(nodes.values())), strict=True))
    options: Any = {"engine": "jax"}
    found = dict(zip(nodes, wy.compile(list(nodes.values()), **options)(), strict=True))
    wrong = [name for name in nodes if not np.array_equal(found[name], expected[name])]
    for name, (target, leaves) in targets.items():
        function, values = wy.jax.lower(target)
        gradients = jax.jit(jax.grad(function))(values)
        for i, leaf in enumerate(leaves):
            if not np.array_equal(gradients[function.names[leaf]], expected[f"{name}, {i}"]):
                wrong.append(f"{name}, {i}, derived by JAX")
    return wrong


if __name__ == "__main__":
    # What ends the process leaves the number of its case as the last line of stderr.
    results = {}
    for case in range(len(CASES)):
        sys.stderr.write(f"case {case}\n")
        sys.stderr.flush()
        results[case] = differing(case)
    sys.stdout.write(json.dumps(results))
