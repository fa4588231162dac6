"""Checkpointing: the same gradients with less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError
from wyrm.graph.traversal import topological_order
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(0)


class Batch(wy.Dim): ...


def part(x: Any, weight: Any) -> Any:
    return ((x @ weight).tanh().dropout(0.5, seed=3, stream=7) @ weight).tanh()


def deep(x: Any, weight: Any, checkpoint: bool) -> Any:
    for _ in range(3):
        x = wy.checkpoint(lambda x: part(x, weight), x) if checkpoint else part(x, weight)
    return x.square().sum()


@pytest.mark.parametrize("loop", ["reference", "compiled", "python"])
def test_the_gradients_equal_those_without_checkpoints(loop: Any) -> None:
    x, weight = (wy.Parameter(RANDOM.standard_normal(shape)) for shape in ((3, 4), (4, 4)))
    results = []
    for checkpoint in (False, True):
        loss = deep(x, weight, checkpoint)
        gradients = wy.grad(loss, [x, weight])
        with wy.random.at_step(5):
            results.append(wy.run([loss, *gradients]))
        if loop != "reference":
            program = wy.compile([loss, *gradients], loop=loop)
            program.load_state_dict({"steps": 5, "epochs": 0})
            results[-1] = program({})
    for first, second in zip(*results, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-12)


def test_second_order() -> None:
    x, weight = (wy.Parameter(RANDOM.standard_normal(shape)) for shape in ((3, 4), (4, 4)))
    check_grads(wy.checkpoint(lambda x: (x @ weight).tanh() * x, x).square().sum(), order=2)


def test_a_part_with_two_inputs_and_nodes_from_outside() -> None:
    x, y, scale = (wy.Parameter(RANDOM.standard_normal(4)) for _ in range(3))
    double = 2.0 * scale
    loss = wy.checkpoint(lambda x, y: (x * y * double).tanh() + y, x, y).sum()
    plain = ((x * y * double).tanh() + y).sum()
    for first, second in zip(wy.grad(loss, [x, y, scale]), wy.grad(plain, [x, y, scale]), strict=True):
        np.testing.assert_allclose(first.forward(), second.forward(), rtol=1e-12)


def test_gpt2_has_the_same_gradients_in_half_the_memory() -> None:
    config = wy.nn.GPT2Config(
        vocab_size=50, n_positions=32, n_embd=16, n_layer=6, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    tokens, targets = (wy.IndexInput(dims=(Batch(), 32), name=name) for name in ("tokens", "targets"))
    text = RANDOM.integers(0, 50, (16, 33))
    feed = {tokens: text[:, :-1], targets: text[:, 1:]}
    model = wy.nn.GPT2(config, seed=3)
    results, peaks = [], []
    for checkpoint in (False, True):
        model.checkpoint = checkpoint
        loss = model.loss(tokens, targets)
        program = wy.compile([loss, *wy.grad(loss, model.parameters())], loop="python")
        results.append(program(feed))
        peaks.append(program.plan.peak_bytes)
    for first, second in zip(*results, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-4, atol=1e-7)
    assert peaks[1] < peaks[0] / 2


def test_bad_input() -> None:
    x = wy.Parameter([1.0, 2.0])
    with pytest.raises(DTypeError, match="float nodes"):
        wy.checkpoint(lambda x: x, 1.0)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(DTypeError, match="must return one float node"):
        wy.checkpoint(lambda x: [x], x)  # type: ignore[arg-type, return-value]  # the mistake
    with pytest.raises(ValueError, match="depends on none of the inputs"):
        wy.checkpoint(lambda x: wy.Constant(1.0) * 2.0, x)


def _readers(x: Any, weight: Any, apart: Any) -> Any:
    """Return a sum of what reads an activation in different ways: twice, in a product, by a checkpoint."""
    y = apart(lambda x: (x * 0.7).tanh() * x, x)
    z = apart(lambda y: y / (1.0 + y * y).sqrt(), y + x)
    return (y * y * z).sum() + (y @ weight).tanh().square().sum() + (z @ weight * y).sum() + y.exp().sum()


def test_readers_of_a_cheap_part_compute_it_again() -> None:
    x, weight = (wy.Parameter(RANDOM.standard_normal(shape)) for shape in ((3, 4), (4, 4)))
    loss, plain = (_readers(x, weight, apart) for apart in (wy.checkpoint, lambda part, x: part(x)))
    check_grads(loss, order=2)
    for first, second in zip(wy.grad(loss, [x, weight]), wy.grad(plain, [x, weight]), strict=True):
        np.testing.assert_allclose(first.forward(), second.forward(), rtol=1e-12)
        np.testing.assert_allclose(wy.compile(first)({}), second.forward(), rtol=1e-12)
    backward = set(topological_order(wy.grad(loss, [x, weight]))) - set(topological_order([loss]))
    results = {each for each in topological_order([loss]) if type(each).__name__ == "Checkpoint"}
    readers = [each for each in backward if not results.isdisjoint(each.parents)]
    assert results and {type(each).__name__ for each in readers} <= {"OptimizationBarrier"}


def test_readers_of_a_costly_part_keep_it() -> None:
    x, weight = (wy.Parameter(RANDOM.standard_normal(shape)) for shape in ((3, 4), (4, 4)))
    y = wy.checkpoint(lambda x: (x @ weight).tanh(), x)
    order = topological_order(wy.grad((y * y).sum(), [x]))
    assert sum(type(each).__name__ == "OptimizationBarrier" for each in order) == 1
