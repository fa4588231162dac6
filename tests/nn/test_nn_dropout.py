from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError


class Batch(wy.Dim): ...


class Width(wy.Dim): ...


def ones(*shape: int) -> wy.Parameter[Any]:
    return wy.Parameter(np.ones(shape))


def test_elements_are_dropped_at_the_rate_and_the_rest_is_scaled() -> None:
    wy.random.set_step(0)
    values = wy.nn.Dropout(0.3)(ones(100, 100)).forward()
    assert set(np.unique(values)) == {0.0, 1.0 / 0.7}
    assert abs(float((values == 0.0).mean()) - 0.3) < 0.02


def test_each_step_has_a_mask_of_its_own_and_repeats() -> None:
    result = wy.nn.Dropout(0.5)(ones(100))
    wy.random.set_step(3)
    first, second = result.forward(), result.forward()
    wy.random.set_step(3)
    again = result.forward()
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)


def test_two_uses_of_one_module_have_different_masks() -> None:
    dropout, x = wy.nn.Dropout(0.5), ones(100)
    both = wy.run([dropout(x), dropout(x)])
    assert (both[0] != both[1]).any()


def test_seeds_have_different_masks() -> None:
    x = ones(100)
    both = wy.run([wy.nn.Dropout(0.5, seed=1)(x), wy.nn.Dropout(0.5, seed=2)(x)])
    assert (both[0] != both[1]).any()


def test_the_gradient_has_the_mask_of_the_value() -> None:
    x = ones(100)
    result = wy.nn.Dropout(0.5)(x)
    loss = result.sum()
    loss.forward()
    loss.backward()
    np.testing.assert_array_equal(x.gradient, result.value)


def test_out_of_training_the_graph_has_no_dropout() -> None:
    dropout, x = wy.nn.Dropout(0.5), ones(3)
    assert dropout.eval()(x) is x
    assert dropout.train()(x) is not x


def test_a_graph_that_exists_keeps_its_dropout_and_says_so() -> None:
    dropout = wy.nn.Dropout(0.5)
    result = dropout(ones(100)) + 0.0
    program = wy.compile(result)
    dropout.eval()
    for run in (result.forward, program, lambda: wy.run([result])[0]):
        with pytest.warns(
            RuntimeWarning, match=r"the graph of Dropout .* built in training, and the module is in evaluation now"
        ):
            assert (run() == 0.0).any()
    dropout.train()
    assert (result.forward() == 0.0).any()


def test_training_goes_on_beside_a_graph_for_evaluation() -> None:
    dropout, x = wy.nn.Dropout(0.5), wy.Parameter(np.ones(100))
    loss = dropout(x).sum()
    program = wy.compile(loss, wy.optim.SGD([x], 0.1))
    still = dropout.eval()(x).sum()
    program()
    loss.backward()
    assert still.forward() < 100.0


@pytest.mark.parametrize(
    "module",
    [
        wy.nn.BatchNorm(8, axis=-1),
        wy.nn.MultiHeadAttention(8, 2, dropout=0.5),
        wy.nn.TransformerBlock(8, 16, 2, dropout=0.5),
    ],
    ids=lambda module: type(module).__name__,
)
def test_every_module_that_knows_a_mode_says_so(module: Any) -> None:
    result = module(wy.Constant(np.ones((2, 3, 8), np.float32)))
    module.eval()
    with pytest.warns(RuntimeWarning, match="built in training"):
        result.forward()


def test_a_rate_of_zero_is_no_dropout() -> None:
    x = ones(3)
    assert wy.nn.Dropout(0.0)(x) is x


def test_shape_and_dtype_are_kept() -> None:
    x = wy.Input(dims=(Batch(), Width(3)))
    result = wy.nn.Dropout(0.5)(x)
    assert_type(result, wy.Tensor[Batch, Width])
    assert result.dims == x.dims and result.dtype == np.float32


def test_repr() -> None:
    assert repr(wy.nn.Dropout(0.5)) == "Dropout(0.5)"
    assert repr(wy.nn.Dropout(0.5, seed=3)) == "Dropout(0.5, seed=3)"


@pytest.mark.parametrize("rate", [1.0, -0.1, 2.0, float("nan"), float("inf")])
def test_a_rate_out_of_range_is_an_error(rate: float) -> None:
    with pytest.raises(ValueError, match=r"Dropout: rate must be in \[0, 1\), not"):
        wy.nn.Dropout(rate)


def test_a_rate_that_is_no_number_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"rate must be a number, not '0\.5'"):
        wy.nn.Dropout("0.5")  # type: ignore[arg-type]  # the mistake that mypy finds


def test_a_truth_value_as_rate_is_an_error() -> None:
    with pytest.raises(DTypeError, match="rate must be a number, not False"):
        wy.nn.Dropout(False)


def test_a_seed_that_is_no_whole_number_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"seed must be an integer, not 1\.5"):
        wy.nn.Dropout(0.5, seed=1.5)  # type: ignore[arg-type]  # the mistake that mypy finds


@pytest.mark.parametrize("rate", [1e-13, 1e-7, 1e-5, 0.3, 0.999999])
def test_a_rate_of_any_size_has_the_same_numbers_in_every_engine(rate: float) -> None:
    """Also a rate that rounds to nothing. Attention divides by the share that it keeps, so the mean stays 1."""
    x = wy.Parameter(np.ones((1, 4, 3, 1, 2)), name="x")
    x.set(np.where(np.arange(3)[:, None, None] < 2, 0.0, x.value))
    node: Any = wy.attention(x, dropout_rate=rate, seed=1, stream=1)
    nodes = [
        x.dropout(rate, seed=2, stream=2),
        node,
        wy.grad(node.sum(), x),
        wy.random.bernoulli((50,), rate, stream=3),
    ]
    values = []
    engine: Any
    for engine in ("reference", "native", "jax"):
        wy.random.set_step(0)
        values.append(wy.run(nodes) if engine == "reference" else wy.compile(nodes, engine=engine)())
    for reference, native, lowered in zip(*values, strict=True):
        np.testing.assert_allclose(native, reference, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(lowered, reference, rtol=1e-14, atol=1e-14)
    if rate < 1e-5:
        assert (values[0][1] == 1.0).all()
