"""In a program that computes in bfloat16, products have narrow operands, and losses and sums the digits of float32."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy


class Batch(wy.Dim): ...


@pytest.mark.parametrize(
    "change", [lambda loss: loss, lambda loss: loss * 1.0 + 3.0, lambda loss: loss.reshape(1).sum()]
)
def test_arithmetic_on_losses_is_that_of_float32(change: Callable[[Any], Any]) -> None:
    random = np.random.default_rng(0)
    x = wy.Input(dims=(Batch(), 64), name="x")
    weight = wy.Parameter(random.standard_normal((64, 8)).astype(np.float32))
    loss = (x @ weight).square().mean()
    data = {x: random.standard_normal((16, 64)).astype(np.float32)}
    own = wy.compile(loss, engine="jax", compute_dtype="bfloat16")(data)
    changed = wy.compile(change(loss), engine="jax", compute_dtype="bfloat16")(data)
    np.testing.assert_allclose(changed, change(wy.Constant(own)).forward(), rtol=1e-6)


def test_the_loss_of_a_language_model_in_training_is_that_of_float32() -> None:
    random = np.random.default_rng(0)
    x, labels = wy.Input(dims=(Batch(), 16), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    weight = wy.Parameter(random.standard_normal((32, 16)).astype(np.float32), name="weight")
    loss = wy.linear_cross_entropy(x, weight, labels)
    data = {x: random.standard_normal((8, 16)).astype(np.float32), labels: random.integers(0, 32, 8)}
    expected = wy.compile(loss)(data)
    found = wy.compile(loss, wy.optim.SGD([weight], 0.1), engine="jax", compute_dtype="bfloat16")(data)
    assert found == pytest.approx(float(expected), rel=1e-2)
    # A float32 that bfloat16 holds too has no digits after its first 16 bits.
    assert np.float32(found).view(np.uint32) % 2**16


def mlp() -> tuple[Any, dict[Any, Any]]:
    wy.nn.seed(0)
    x, labels = wy.Input(dims=(Batch(), 6), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    model = wy.nn.Linear(6, 8) >> wy.nn.gelu >> wy.nn.Linear(8, 3)
    random = np.random.default_rng(0)
    data = {x: random.standard_normal((4, 6)).astype(np.float32), labels: random.integers(0, 3, 4)}
    return model(x).cross_entropy(labels), data


def cnn() -> tuple[Any, dict[Any, Any]]:
    wy.nn.seed(0)
    x, target = wy.Input(dims=(Batch(), 1, 6, 6), name="x"), wy.Input(dims=(Batch(), 3), name="target")
    first, second = wy.nn.Conv2d(1, 2, 3, stride=2, padding=1), wy.nn.Conv2d(2, 3, 3)
    outputs = second(first(x).relu()).reshape((x.dims[0], 3))
    random = np.random.default_rng(0)
    data = {x: random.standard_normal((4, 1, 6, 6)), target: random.standard_normal((4, 3))}
    return (outputs - target).square().mean(), data


def recurrent(layer: Any) -> tuple[Any, dict[Any, Any]]:
    wy.nn.seed(0)
    x, target = wy.Input(dims=(Batch(), 3, 4), name="x"), wy.Input(dims=(Batch(), 2), name="target")
    states = layer(4, 5)(x).sequence
    loss = (wy.nn.Linear(5, 2)(states[:, -1]) - target).square().mean()
    random = np.random.default_rng(0)
    return loss, {x: random.standard_normal((4, 3, 4)), target: random.standard_normal((4, 2))}


def gpt2() -> tuple[Any, dict[Any, Any]]:
    config = wy.nn.GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=2, n_head=2)
    tokens, following = wy.IndexInput(dims=(Batch(), 8)), wy.IndexInput(dims=(Batch(), 8))
    random = np.random.default_rng(0)
    data = {leaf: random.integers(0, 16, (4, 8)) for leaf in (tokens, following)}
    return wy.nn.GPT2(config, seed=3).loss(tokens, following), data


MODELS: dict[str, Callable[[], tuple[Any, dict[Any, Any]]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lambda: recurrent(wy.nn.LSTM),
    "gru": lambda: recurrent(wy.nn.GRU),
    "gpt2": gpt2,
}
# The products of a training step, one line of StableHLO each. Layers of GPT-2 are counted once where they are a loop.
FEWEST = {"mlp": 5, "cnn": 5, "lstm": 8, "gru": 8, "gpt2": 20}


def product_types(text: str) -> list[tuple[str, ...]]:
    """Return the dtypes of the operands and of the result of each product in StableHLO."""
    lines = [line for line in text.splitlines() if re.search(r"stablehlo\.(dot_general|convolution)", line)]
    return [tuple(re.findall(r"tensor<(?:\d+x)*(\w+)>", line.rpartition(" : ")[2])) for line in lines]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("compute_dtype", "operand"), [("bfloat16", "bf16"), (None, "f32")])
def test_the_operands_and_the_sums_of_all_products(name: str, compute_dtype: Any, operand: str) -> None:
    loss, data = MODELS[name]()
    options: Any = {"engine": "jax", "compute_dtype": compute_dtype}
    training = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1), **options)
    training(data)
    found = product_types(training.source)
    assert len(found) >= FEWEST[name]
    assert set(found) == {(operand, operand, "f32")}
    evaluation = wy.compile(loss, **options)
    evaluation(data)
    assert set(product_types(evaluation.source)) == {(operand, operand, "f32")}


def test_products_with_vectors_have_narrow_operands_too() -> None:
    x, weight = wy.Input(dims=(Batch(), 64), name="x"), wy.Parameter(np.ones(64, np.float32))
    loss = ((x @ weight) - 1.0).square().mean()
    training = wy.compile(loss, wy.optim.SGD([weight], 0.1), engine="jax", compute_dtype="bfloat16")
    training({x: np.ones((4, 64), np.float32)})
    assert set(product_types(training.source)) == {("bf16", "bf16", "f32")}


def test_gradients_are_those_of_a_program_of_jax_in_bfloat16() -> None:
    loss, data = mlp()
    x, labels = data.values()
    training = wy.compile(loss, wy.optim.SGD(loss.parameters(), 1.0), engine="jax", compute_dtype="bfloat16")
    before = [np.array(parameter.value) for parameter in loss.parameters()]

    def narrow(a: Any, b: Any) -> Any:
        product = jnp.matmul(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
        return product.astype(jnp.bfloat16)

    def by_jax(weights: Any) -> Any:
        first, bias, second, other = weights
        hidden = jax.nn.gelu(narrow(x, first) + bias.astype(jnp.bfloat16), approximate=False)
        logits = (narrow(hidden, second) + other.astype(jnp.bfloat16)).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    expected_loss, expected = jax.jit(jax.value_and_grad(by_jax))(list(map(jnp.asarray, before)))
    # Some roundings to 8 binary digits.
    assert training(data) == pytest.approx(float(expected_loss), rel=2.0**-7)
    for parameter, start, gradient in zip(loss.parameters(), before, expected, strict=True):
        found = start - parameter.value
        np.testing.assert_allclose(found, gradient, atol=2.0**-6 * float(np.abs(gradient).max()))


def test_the_targets_of_a_loss_without_ignored_labels_need_no_integers_of_64_bits() -> None:
    x, labels = wy.Input(dims=(5, 4), name="x"), wy.IndexInput(dims=(5,), name="labels")
    weight = wy.Parameter(np.ones((3, 4), np.float32) * np.arange(4, dtype=np.float32), name="weight")
    (slope,) = wy.grad(wy.linear_cross_entropy(x, weight, labels), [weight])
    (second,) = wy.grad(slope.square().sum(), [weight])
    data = {x: np.random.default_rng(0).standard_normal((5, 4)), labels: [0, 1, 2, 0, 1]}
    # A warning would say that JAX calls NumPy.
    np.testing.assert_allclose(wy.compile(second, engine="jax")(data), wy.compile(second)(data), rtol=1e-4, atol=1e-6)


def test_what_loops_of_ops_carry_has_the_digits_of_float32() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(size=(1, 600, 4))
    data = (scores - np.log(np.exp(scores).sum(-1, keepdims=True))).astype(np.float32)
    x = wy.Input(dims=data.shape, name="x")
    loss = wy.losses.ctc(x, np.array([[1, 2, 3]]), reduction="none")
    (wanted,), (found,) = (
        wy.compile(loss, engine="jax", compute_dtype=dtype)({x: data}) for dtype in (None, "bfloat16")
    )
    assert found == pytest.approx(float(wanted), rel=1e-6)
    layer = wy.nn.LSTM(3, 8, seed=0, forget_bias=5.0)
    rows = wy.Input(dims=(4, 300, 3), name="rows")
    cell = layer(rows)[1].cell
    given = {rows: random.normal(size=(4, 300, 3)).astype(np.float32) + 0.5}
    wide, narrow = (wy.compile(cell, engine="jax", compute_dtype=dtype)(given) for dtype in (None, "bfloat16"))
    assert np.abs(wide - narrow).max() < 0.01 * np.abs(wide).max()
