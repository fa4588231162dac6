"""Every registered op on weak operands: in float64 it gives what it gives on operands whose type was chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

import wyrm as wy
from tests.ops.test_ops_every import every
from tests.samples.sample import Sample
from wyrm.graph.rows import RowSparse
from wyrm.graph.weak_types import in_type, is_weak

# Ops that choose a type, a loop, which keeps the type in which its step was traced, and samples that choose one.
CHOOSING = {"Cast", "Scan", "Updating", "GammaInc", "GammaIncC", "BetaInc", "LogGammaSlope"}
# Gradients of ops and other internal ops, whose operands always have one type.
INTERNAL = {"CrossEntropyGradient", "AttentionGradient", "OptimizationBarrier"}


def build(sample: Sample, strong: tuple[int, ...]) -> Any:
    """Return the node of a sample whose float operands are weak but for some."""
    operands: list[Any] = []
    for i, array in enumerate(sample.operands):
        if array.dtype.kind == "f" and i not in strong:
            operands.append(wy.Constant(array.tolist(), array.shape))
        else:
            operands.append(wy.IndexInput(array) if array.dtype.kind == "i" else wy.Input(array))
    return sample.build(*operands)


def floats(sample: Sample) -> tuple[int, ...]:
    return tuple(i for i, array in enumerate(sample.operands) if array.dtype.kind == "f")


def value(node: Any) -> Any:
    wy.random.set_step(0)
    found = node.forward()
    return found.dense() if isinstance(found, RowSparse) else found


@every(lambda sample: bool(floats(sample)) and sample.op.__name__ not in CHOOSING | INTERNAL)
def test_weak_operands_give_what_chosen_ones_give(sample: Sample) -> None:
    chosen = build(sample, floats(sample))
    wanted = value(chosen)
    if not np.array_equal(wanted, value(build(sample, floats(sample)))):
        return  # the op draws from a stream of its own
    weak = build(sample, ())
    if weak.dtype.kind == "f":
        assert is_weak(weak.dtype)
        assert np.array_equal(value(in_type(weak, np.dtype(np.float64))), wanted)
    for strong in floats(sample) if len(floats(sample)) > 1 else ():
        mixed = build(sample, (strong,))
        assert mixed.dtype == chosen.dtype and not is_weak(mixed.dtype)
        assert np.array_equal(value(mixed), wanted)
