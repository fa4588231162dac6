"""Ops that JAX computes in blocks of rows: equal to the whole, for any number of blocks and of shards of the rows."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.lower import Lowerer, words
from wyrm.graph.node import Node
from wyrm.graph.schedule import Schedule
from wyrm.ops.kernels.loops_jax import in_blocks, number_of_blocks
from wyrm.ops.random.philox import STEP

SIZES = [(64, 2**26, 16), (1, 2**30, 1), (61, 2**26, 61), (8191, 2**26, 1), (6, 0, 1)]


@pytest.mark.parametrize(("rows", "size", "blocks"), SIZES)
def test_the_number_of_blocks_divides_the_rows(rows: int, size: int, blocks: int) -> None:
    assert number_of_blocks(rows, size, 2**22) == blocks


@pytest.mark.parametrize(("blocks", "shards"), [(1, 1), (4, 1), (3, 2), (2, 6), (12, 1)])
def test_rows_keep_their_order_and_sums_are_over_all(blocks: int, shards: int) -> None:
    x, y = np.arange(24.0, dtype=np.float32).reshape(12, 2), np.arange(12, dtype=np.int32)

    def function(x: Any, y: Any) -> Any:
        return {"sum": x.sum(axis=1) + y, "x": x}, (x.sum(), y.sum())

    rows, sums = in_blocks(function, blocks, shards, [x, y])
    np.testing.assert_array_equal(rows["sum"], x.sum(axis=1) + y)
    np.testing.assert_array_equal(rows["x"], x)
    assert [float(each) for each in sums] == [x.sum(), y.sum()]


def compare(node: Node, **options: Any) -> None:
    """Compare a node and the gradients of its parameters with the reference."""
    parameters = node.parameters()
    outputs = [node, *wy.grad((node * node).sum(), parameters)]
    expected = []
    for output in outputs:
        wy.random.set_step(3)
        expected.append(output.forward())
    schedule = Schedule(outputs)

    def function(step: Any, *arrays: Any) -> Any:
        return Lowerer(**options).run(schedule, {STEP: step, **dict(zip(parameters, arrays, strict=True))})

    with jax.enable_x64(True):
        found = jax.jit(function)(words(3), *(parameter.value for parameter in parameters))
    for value, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"block_bytes": 2**16}, {"block_bytes": 2**14, "shards": 3}], ids=str)
@pytest.mark.parametrize("attention", [
    {"causal": True, "dropout_rate": 0.3, "seed": 5, "stream": 9}, {"causal": True, "alibi": True}, {"alibi": True},
    {"masked": True, "causal": True, "dropout_rate": 0.3, "stream": 2**33}, {"masked": True},
], ids=str)  # fmt: skip
def test_attention_over_several_tiles_and_blocks(attention: dict[str, Any], options: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    time, attention = 71, dict(attention)
    mask = random.random((6, time, time)) < 0.7
    mask[1, 3] = False  # a query that sees no key
    given = mask if attention.pop("masked", False) else None
    compare(wy.attention(wy.Parameter(random.normal(size=(6, time, 3, 2, 4))), given, **attention), **options)


@pytest.mark.parametrize("options", [{}, {"block_bytes": 2**12}, {"block_bytes": 2**11, "shards": 2}], ids=str)
@pytest.mark.parametrize("loss", [{}, {"label_smoothing": 0.1, "ignore_index": 3}], ids=str)
def test_cross_entropy_over_several_blocks(loss: dict[str, Any], options: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    x, weight = wy.Parameter(random.normal(size=(48, 5))), wy.Parameter(random.normal(size=(31, 5)))
    compare(wy.linear_cross_entropy(x, weight, random.integers(0, 31, 48), **loss), **options)
