"""Loops: neighbouring axes run as one, values are computed where they are read, and again where that costs less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.ops.reducing.positions import first_true

RANDOM = np.random.default_rng(0)


class Batch(wy.Dim): ...


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape, np.float32)


def test_axes_that_an_array_has_side_by_side_are_one_loop() -> None:
    x, bias = wy.Input(dims=(Batch(), 3, 4, 5)), wy.Parameter(normal(3, 1, 1))
    both, inner = wy.compile(x.relu()), wy.compile((x + bias).relu())
    assert "for i0, i1, i2, i3 in ndindex(" in both.source
    assert "for i2, i3 in ndindex(" in inner.source and "for i0, i1" not in inner.source
    for rows in (0, 1, 7):
        data = normal(rows, 3, 4, 5)
        np.testing.assert_array_equal(both({x: data}), np.maximum(data, 0.0))
        np.testing.assert_array_equal(inner({x: data}), np.maximum(data + bias.value, 0.0))


def test_a_loop_ends_at_the_first_true_element_if_nothing_else_needs_the_later_ones() -> None:
    x, y = wy.Input(dims=(Batch(), 4), name="x"), wy.Input(dims=(Batch(), 5, 4), name="y")
    scores = (x.expand_dims(1) * y).sum(-1)
    first = first_true(x.sum(-1).square().expand_dims(-1) < scores)
    alone, both = wy.compile(first), wy.compile([first, scores])
    assert "break" in alone.source and alone.source.count("for i1 in") == both.source.count("for i1 in") - 1
    for rows in (0, 1, 7, 200):
        data = {x: normal(rows, 4) * 0.5, y: normal(rows, 5, 4)}
        values = (data[x][:, None] * data[y]).sum(-1)
        counts = data[x].sum(-1)[:, None] ** 2 < values
        wanted = np.where(counts.any(-1), counts.argmax(-1), 5)
        np.testing.assert_array_equal(alone(data), wanted)
        found = both(data)
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_allclose(found[1], values, rtol=1e-5, atol=1e-6)


def test_what_a_loop_reads_beside_a_sum_is_known_before_it() -> None:
    """The comparison stands in the loop of the scores, which are not stored."""
    x, y = wy.Input(dims=(Batch(), 4), name="x"), wy.Input(dims=(Batch(), 5, 4), name="y")
    scores = (x.expand_dims(1) * y).sum(-1)
    program = wy.compile(((x.sum(-1) * 2.0 + 1.0).expand_dims(-1) > scores).sum(-1))
    assert program.source.count("for i1 in") == 2
    data = {x: normal(9, 4), y: normal(9, 5, 4)}
    limit = data[x].sum(-1)[:, None] * 2.0 + 1.0
    np.testing.assert_array_equal(program(data), ((data[x][:, None] * data[y]).sum(-1) < limit).sum(-1))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose((0, 1, 3, 2)), lambda x: x.transpose((3, 2, 1, 0)), lambda x: x[:, :, :2],
        lambda x: x[..., :2], lambda x: x[:, :, ::-1], lambda x: x[:1], lambda x: x.swapaxes(1, 2)[:, :3],
    ],
)  # fmt: skip
def test_what_is_not_side_by_side_keeps_its_loops(view: Any) -> None:
    data, other = normal(2, 3, 4, 5), normal(2, 3, 4, 5)
    x = wy.Parameter(data)
    expected = 2.0 * view(data) + view(other)
    np.testing.assert_allclose(wy.compile(2.0 * view(x) + view(wy.Constant(other)))({}), expected, rtol=1e-6)
    held = wy.Input(dims=expected.shape)
    np.testing.assert_allclose(wy.compile(2.0 * view(x) + held)({held: view(other)}), expected, rtol=1e-6)


def test_a_sum_over_some_of_the_axes() -> None:
    data = normal(6, 5, 4, 3)
    x = wy.Input(dims=(Batch(), 5, 4, 3))
    for axes in ((2, 3), (1, 2, 3), (0, 2, 3), (1, 3), (0, 1), (0, 1, 2, 3)):
        centred = x - x.mean(axes, keepdims=True)
        expected = np.square(data - data.mean(axes, keepdims=True)).sum(axes)
        np.testing.assert_allclose(wy.compile(centred.square().sum(axes))({x: data}), expected, rtol=1e-4)


def test_batch_norm_with_relu_stores_no_array_of_its_size_but_the_result() -> None:
    x, norm = wy.Input(dims=(Batch(), 4, 6, 6)), wy.nn.BatchNorm2d(4)
    program = wy.compile(norm(x).relu())
    data = normal(8, 4, 6, 6)
    program({x: data})
    stored = program.stages()["materialize"].splitlines()
    assert sum("(Batch(), 4, 6, 6)" in line for line in stored) == 1


@pytest.mark.parametrize("norm", [lambda: wy.nn.BatchNorm2d(4), lambda: wy.nn.GroupNorm(2, 4)])
def test_values_that_are_computed_again_give_the_same_gradients(norm: Any) -> None:
    first, second, convolution = norm(), norm(), wy.nn.Conv2d(4, 4, 3, padding=1, seed=0)
    x, data = wy.Input(dims=(Batch(), 4, 6, 6)), normal(5, 4, 6, 6)
    inside = first(convolution(x)).relu()
    loss = (second(convolution(inside) + inside).relu() * x).square().mean()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    x.set(data)
    loss.backward()
    before = {parameter: parameter.value.copy() for parameter in loss.parameters()}
    program({x: data})
    for parameter, value in before.items():
        expected = value - 0.1 * parameter.gradient
        np.testing.assert_allclose(parameter.value, expected, rtol=1e-4, atol=1e-5)


def test_a_value_is_stored_that_scalars_read_by_an_index() -> None:
    x = np.linspace(-1.0, 2.0, 7)

    def function(x: Any, i: Any) -> Any:
        above = wy.maximum(x, 0.5) - x  # cheap: the second loop computes it again
        return (above / (x * x).sum()).sum() + above[i]

    native, reference = wy.function(function, engine="native"), wy.function(function)
    for index in (0, 1, 3):
        for compute in ("value", "gradient"):
            found, expected = (
                (each if compute == "value" else each.grad())(x, np.array(index)) for each in (native, reference)
            )
            np.testing.assert_allclose(found, expected, rtol=1e-14)


def skip_grams(draws: Any) -> tuple[Any, tuple[wy.Parameter[Any], ...]]:
    """Return the loss of word2vec for two inputs, and its tables."""
    inputs, outputs = (wy.Parameter(normal(7, 20), name=name) for name in ("inputs", "outputs"))
    word = inputs.index(draws[0])
    far = (word[:, None, :] * outputs.index(draws[1])).sum(axis=-1)
    return (-word.vector_dot(outputs.index(draws[2]))).softplus().sum() + far.softplus().sum(), (inputs, outputs)


def test_functions_of_sums_over_rows_have_loops_of_their_own_that_run_as_one() -> None:
    """Beside a sum over a row they would be computed one by one."""
    batch = Batch()
    leaves = [
        wy.IndexInput(dims=dims, name=name) for name, dims in (("a", (batch,)), ("b", (batch, 5)), ("c", (batch,)))
    ]
    loss, tables = skip_grams(leaves)
    before = [table.value.copy() for table in tables]
    program = wy.compile(loss, wy.optim.SGD(list(tables), 0.1))
    data = {leaf: RANDOM.integers(0, 7, (9, 5)[: leaf.ndim]) for leaf in leaves}
    (nest,) = [part for part in program.source.split("\n\n\n") if "for i0, i1 in ndindex(" in part]
    assert "softplus_2_ = " in nest and "sigmoid_ = " in nest and nest.count("for ") == 1
    # One loop computes and adds the gradients of all rows, and nothing of their size is stored.
    (adding,) = [part for part in program.source.split("\n\n\n") if "claim(" in part and part.startswith("def loop")]
    assert adding.count("into the gradient of") == 3 and "place_slice" not in program.source
    program.epoch(data, batch_size=9)
    others = [wy.IndexConstant(data[leaf]) for leaf in leaves]
    check, again = skip_grams(others)
    for table, old in zip(again, before, strict=True):
        table.set(old)
    check.backward()
    for table, other, old in zip(tables, again, before, strict=True):
        np.testing.assert_allclose(table.value, old - 0.1 * np.asarray(other.gradient), rtol=1e-5, atol=1e-6)


def test_a_loop_of_functions_takes_no_sums_over_some_of_its_axes() -> None:
    x, y = wy.Input(dims=(Batch(), 4), name="x"), wy.Input(dims=(Batch(), 5, 4), name="y")
    dots: Any = (x.expand_dims(1) * y).sum(-1)
    values = dots.softplus()
    program = wy.compile([values, values.sum(-1), (values * 2.0).sum(), values.max(0)])
    assert "for i0, i1 in ndindex(" in program.source
    for rows in (1, 3, 40):
        data = {x: normal(rows, 4), y: normal(rows, 5, 4)}
        wanted = np.logaddexp(0.0, (data[x][:, None] * data[y]).sum(-1))
        sums = wanted.sum(-1), (wanted * 2.0).sum(), wanted.max(0)
        for found, exact in zip(program(data), (wanted, *sums), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-5)
