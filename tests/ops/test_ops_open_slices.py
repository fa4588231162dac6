"""Parts of axes that get their sizes from the data of each run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from tests.runs import runner
from wyrm.errors import ShapeError
from wyrm.graph.quotients import scaled


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Channels(wy.Dim): ...


T = Time()
# Slices, and the axis that each leaves.
PARTS: list[tuple[slice, Any]] = [
    (slice(1, None), scaled(T, 1, -1)),
    (slice(None, -1), scaled(T, 1, -1)),
    (slice(2, -3), scaled(T, 1, -5)),
    (slice(None, None, 2), scaled(T, 1, 1, 2)),
    (slice(1, -1, 3), scaled(T, over=3)),
    (slice(3), 3),
    (slice(1, 4, 2), 2),
    (slice(-3, None), 3),
    (slice(-4, -1), 3),
    (slice(-4, None, 3), 2),
    (slice(2, 1), 0),
    (slice(None, None, -1), T),
]


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
def test_parts(engine: str) -> None:
    """They have NumPy's elements, and gradients that go back to these, in the runs of one program."""
    if engine == "jax":
        pytest.importorskip("jax")
    x = wy.Input(dims=(Batch(), T, 2), name="x")
    nodes: list[Any] = [x[:, key] for key, _ in PARTS]
    for node, (_, axis) in zip(nodes, PARTS, strict=True):
        assert node.dims == (Batch(), axis, 2)
    gradients = [wy.grad((node * node).sum(), x) for node in nodes]
    second = [wy.grad((each * each).sum(), x) for each in gradients]
    outputs = [*nodes, *gradients, *second]
    run = runner(outputs, x, engine)
    for size in (7, 5, 12, 7):
        data = np.random.default_rng(size).standard_normal((3, size, 2)).astype(np.float32)
        found = run(data)
        for i, (key, _) in enumerate(PARTS):
            np.testing.assert_array_equal(found[i], data[:, key])
            for order, factor in ((1, 2.0), (2, 8.0)):
                expected = np.zeros_like(data)
                expected[:, key] = factor * data[:, key]
                np.testing.assert_allclose(found[order * len(PARTS) + i], expected, rtol=1e-6)


def test_integers_and_masks() -> None:
    tokens = wy.IndexInput(dims=(Batch(), T), name="tokens")
    before, after = tokens[:, :-1], tokens[:, 1:]
    assert before.dims == after.dims
    table = wy.Parameter(np.random.default_rng(0).standard_normal((5, 5)))
    scores: Any = table.index(before)
    loss = scores.cross_entropy(after)
    program = wy.compile([loss, wy.grad(loss, table)])
    for size in (2, 6):
        data = np.random.default_rng(size).integers(0, 5, (3, size))
        shifted = table.value[data[:, :-1]]
        rows = np.log(np.exp(shifted).sum(-1)) - np.take_along_axis(shifted, data[:, 1:, None], -1)[..., 0]
        tokens.set(data)
        np.testing.assert_allclose(loss.forward(), rows.mean(), rtol=1e-12)
        np.testing.assert_allclose(program({tokens: data})[0], rows.mean(), rtol=1e-12)


def test_the_next_token_trains_with_texts_of_several_lengths() -> None:
    class Vocabulary(wy.Dim): ...

    wy.nn.seed(0)
    tokens = wy.IndexInput(dims=(Batch(), T), name="tokens")
    model: Any = wy.nn.Sequential(wy.nn.Embedding(Vocabulary(7), Channels(8)), wy.nn.Linear(Channels(8), Vocabulary(7)))
    scores: Any = model(tokens[:, :-1])
    loss = scores.cross_entropy(tokens[:, 1:])
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=3e-2))
    for epoch in range(60):
        start = np.random.default_rng(epoch).integers(0, 7, (32, 1))
        data = (start + np.arange(5 + epoch % 3)) % 7
        mean = program.epoch({tokens: data}, batch_size=8, threads=1 + epoch % 2, mode="synchronized")
    assert mean < 0.1


def test_parts_of_a_batch_do_not_combine() -> None:
    """Rows meet, so that totals over batches and threads must not take parts of theirs."""
    x = wy.Input(dims=(Batch(), 2), name="x")
    slope = wy.Parameter(1.0, name="slope")
    data = np.random.default_rng(0).standard_normal((12, 2)).astype(np.float32)
    for part in (x[:-1], x[1:], x[::2], x[:3], x[-3:]):
        mean = (part * slope).square().mean()
        x.set(data)
        expected = float(mean.forward())
        program = wy.compile(mean, wy.optim.SGD([slope], learning_rate=0.0))
        assert float(program.epoch({x: data}, batch_size=12, threads=2)) == pytest.approx(expected, rel=1e-5)
        slope.zero_gradient()
        program.backward({x: data}, threads=2)
        np.testing.assert_allclose(slope.gradient, wy.grad(mean, slope).forward(), rtol=1e-5)


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize(
    ("key", "least"), [((3, None), 3), ((1, -2), 3), ((None, 4), 4), ((-4, -1), 4), ((-2, None), 2)]
)
def test_axes_with_too_few_elements(engine: str, key: tuple[Any, Any], least: int) -> None:
    x = wy.Input(dims=(T,), name="x")
    node = x[slice(*key)] * 2.0

    def run(data: Any) -> Any:
        if engine == "numpy":
            x.set(data)
            return node.forward()
        return wy.compile(node, engine=engine)({x: data})

    data = np.arange(least, dtype=np.float32)
    np.testing.assert_array_equal(run(data), 2.0 * data[slice(*key)])
    with pytest.raises(ShapeError, match=rf"Time\(\) needs {least} elements; the axis has {least - 1} in this run"):
        run(data[:-1])


@pytest.mark.parametrize("key", [slice(-3, 5), slice(None, None, -2), slice(5, None, -1)])
def test_parts_whose_size_does_not_follow(key: slice) -> None:
    with pytest.raises(ShapeError, match=r"a part of axis Time\(\)"):
        _ = wy.Input(dims=(T,))[key]


def test_functions_of_neighbours() -> None:
    x = wy.Input(dims=(Batch(), T), dtype=np.float64, name="x")
    node = wy.diff(x, n=2)
    assert node.dims == (Batch(), scaled(T, 1, -2))
    data = np.random.default_rng(0).standard_normal((2, 6))
    x.set(data)
    np.testing.assert_allclose(node.forward(), np.diff(data, n=2), rtol=1e-12)


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
def test_joined_parts(engine: str) -> None:
    """One of them gets its size from data; a shifted sequence has the axis of the sequence."""
    if engine == "jax":
        pytest.importorskip("jax")
    x, start = wy.Input(dims=(Batch(), T), name="x"), wy.Parameter(np.ones((1, 2), np.float32))
    first: Any = start.broadcast_to((x.dims[0], 2))
    joins: list[tuple[list[Any], Any]] = [
        ([first[:, :1], x[:, :-1]], T),
        ([x[:, 1:], x[:, :1]], T),
        ([first, x[:, 1:-1], first[:, :1]], scaled(T, 1, 1)),
        ([first, x], None),
        ([x, first, first], None),
    ]
    nodes: list[Any] = [wy.concatenate(parts, axis=1) for parts, _ in joins]
    assert [node.dims[1] for node in nodes[:3]] == [axis for _, axis in joins[:3]]
    nodes += [wy.pad(x, ((0, 0), (2, 1)), constant_values=3.0), nodes[0] * x]
    weights = [wy.arange(node.dims[1]).astype(np.float32) + 1.0 for node in nodes]
    gradients = [
        each
        for node, weight in zip(nodes, weights, strict=True)
        for each in wy.grad((node * node * weight).sum(), [x, start], allow_unused=True)
    ]
    outputs = [*nodes, *gradients]
    run = runner(outputs, x, engine)
    for size in (3, 8, 2):
        data = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        y, z = torch.tensor(data, requires_grad=True), torch.ones(1, 2, requires_grad=True)
        f = z.expand(3, 2)
        shifted = torch.cat([f[:, :1], y[:, :-1]], 1)
        expected = [
            shifted, torch.cat([y[:, 1:], y[:, :1]], 1), torch.cat([f, y[:, 1:-1], f[:, :1]], 1), torch.cat([f, y], 1),
            torch.cat([y, f, f], 1), torch.nn.functional.pad(y, (2, 1), value=3.0), shifted * y,
        ]  # fmt: skip
        wanted = list(expected)
        for each in expected:
            total = (each * each * torch.arange(1.0, each.shape[1] + 1)).sum()
            found = torch.autograd.grad(total, [y, z], allow_unused=True, retain_graph=True)
            wanted += [torch.zeros_like(leaf) if g is None else g for leaf, g in zip((y, z), found, strict=True)]
        values = run(data)
        for value, target in zip(values, wanted, strict=True):
            np.testing.assert_allclose(value, target.detach().numpy(), rtol=1e-4, atol=1e-5)
