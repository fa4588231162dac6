"""`wy.jax.lower`: values, names, derivatives, JAX's transformations and libraries, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import wyrm as wy
from tests.engines.jax.test_engine import functions_compiled
from tests.subprocesses import error_without
from wyrm.errors import DTypeError, IndexOutOfRange, NotSet, OptionError, ShapeError


class Batch(wy.Dim): ...


class MLP(wy.nn.Module):
    def __init__(self) -> None:
        self.hidden = wy.nn.Linear(3, 5)
        self.norm = wy.nn.BatchNorm(5)
        self.out = wy.nn.Linear(5, 2)

    def __call__(self, x: Any) -> Any:
        return self.out(self.norm(self.hidden(x)).relu())


def test_names_are_paths_with_a_model_and_numbered_without() -> None:
    x, model = wy.Input(dims=(Batch(), 3)), MLP().eval()
    output = model(x)
    paths = ["hidden.weight", "hidden.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    _, parameters = wy.jax.lower(output, inputs=[x], model=model)
    assert sorted(parameters) == sorted([*paths, "out.weight", "out.bias"])
    function, parameters = wy.jax.lower(output, inputs=[x])
    assert sorted(parameters)[-3:] == ["weight_0", "weight_1", "weight_2"]
    given = np.ones((4, 3), np.float32)
    x.set(given)
    np.testing.assert_allclose(function(parameters, given), output.forward(), rtol=1e-6)


def test_parameters_are_copies() -> None:
    weight = wy.Parameter(np.ones(1000, np.float32), name="weight")
    function, parameters = wy.jax.lower(weight.sum())
    weight.set(np.zeros(1000, np.float32))
    assert float(function(parameters)) == 1000.0


def test_copies_of_parameters_compile_nothing() -> None:
    weight = wy.Parameter(np.ones((7, 31, 2), np.float32))  # a shape that no other test has
    assert functions_compiled(lambda: wy.jax.lower(weight.sum())) == 0


def test_several_outputs_and_open_axes() -> None:
    x = wy.Input(dims=(Batch(), 3))
    function, _ = wy.jax.lower([x.sum(), x * 2.0], inputs=[x])
    for rows in (1, 4):
        total, doubled = function({}, np.ones((rows, 3)))
        assert (float(total), doubled.shape) == (3.0 * rows, (rows, 3))


def test_transformations_of_jax() -> None:
    x, weight = wy.Input(dims=(3,)), wy.Parameter([1.0, -2.0, 0.5], name="weight")
    function, parameters = wy.jax.lower((x * weight).tanh().sum(), inputs=[x])
    rows = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    value = np.array([function(parameters, row) for row in rows])
    np.testing.assert_allclose(jax.jit(jax.vmap(function, (None, 0)))(parameters, rows), value, rtol=1e-5)
    hessian: Any = jax.jit(jax.hessian(lambda w: function({"weight": w}, rows[0])))(parameters["weight"])
    inner = rows[0] * np.asarray(weight.value)
    np.testing.assert_allclose(
        np.diag(hessian), -2 * np.tanh(inner) * (1 - np.tanh(inner) ** 2) * rows[0] ** 2, rtol=1e-4
    )


def test_dropout_draws_the_numbers_of_the_step() -> None:
    x = wy.Input(np.ones((50, 3), np.float32))
    output = wy.nn.Dropout(0.5, 1)(x)
    function, parameters = wy.jax.lower(output)
    for step in (0, 7):
        wy.random.set_step(step)
        expected = output.forward()
        np.testing.assert_array_equal(function(parameters, step=step), expected)
        np.testing.assert_array_equal(jax.jit(function)(parameters, step=jnp.int32(step)), expected)
    assert (function(parameters, step=0) != function(parameters, step=7)).any()


@pytest.mark.parametrize(
    "build", [lambda x: x.relu(), lambda x: abs(x), lambda x: x.clip(0.0, 1.0), lambda x: wy.maximum(x, 0.0)]
)
def test_derivatives_where_pieces_meet_are_those_of_the_op(build: Any) -> None:
    x = wy.Parameter([0.0, 1.0, -1.0], name="x")
    total = build(x).sum()
    expected = wy.grad(total, x).forward()
    function, parameters = wy.jax.lower(total)
    np.testing.assert_array_equal(jax.grad(function)(parameters)["x"], expected)
    forward: Any = jax.jacfwd(function)(parameters)
    np.testing.assert_array_equal(forward["x"], expected)


def test_custom_and_stopped_gradients() -> None:
    @wy.custom_vjp
    def rounded(x: Any) -> Any:
        return wy.round(x)

    rounded.define(lambda x: (wy.round(x), None), lambda kept, cotangent: (3.0 * cotangent,))
    x = wy.Parameter([0.4, 1.6], name="x")
    function, parameters = wy.jax.lower((rounded(x) * x.stop_gradient()).sum())
    np.testing.assert_allclose(jax.grad(function)(parameters)["x"], 3.0 * x.value, rtol=1e-6)


def test_a_checkpoint_recomputes() -> None:
    x = wy.Parameter(np.linspace(-1, 1, 5).astype(np.float32), name="x")
    plain = (x * x).tanh().sum()
    total = wy.checkpoint(lambda x: (x * x).tanh(), x).sum()
    function, parameters = wy.jax.lower(total)
    gradient: Any = jax.jit(jax.grad(function))(parameters)
    np.testing.assert_allclose(gradient["x"], wy.grad(plain, x).forward(), rtol=1e-6)
    assert "remat" in str(jax.make_jaxpr(jax.grad(function))(parameters))


def test_checkpoints_inside_checkpoints() -> None:
    x, table = wy.Parameter([0.5, -1.0], name="x"), wy.IndexInput(np.array([1, 0, 1]))
    total = wy.checkpoint(lambda x: wy.checkpoint(lambda y: y.tanh()[table], x).sin(), x).sum()
    function, parameters = wy.jax.lower(total, inputs=[table])
    expected = wy.grad(total, x).forward()
    np.testing.assert_allclose(jax.grad(function)(parameters, [1, 0, 1])["x"], expected, rtol=1e-6)


def test_a_loop_with_a_stop_condition_has_a_gradient() -> None:
    @wy.function
    def doubled_until(x: Any) -> Any:
        return wy.while_loop(lambda x: x < 10.0, lambda x: x * x, x, max_steps=6)

    x = wy.Parameter(1.5, name="x")
    total = doubled_until(x)
    function, parameters = wy.jax.lower(total)
    np.testing.assert_allclose(function(parameters), total.forward(), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(function)(parameters)["x"], wy.grad(total, x).forward(), rtol=1e-6)


def test_training_with_optax_equals_training_with_wyrm() -> None:
    random = np.random.default_rng(0)
    data, target = random.standard_normal((8, 3)).astype(np.float32), random.standard_normal((8, 2)).astype(np.float32)
    x, y, model = wy.Input(dims=(Batch(), 3)), wy.Input(dims=(Batch(), 2)), wy.nn.Linear(3, 2)
    loss = (model(x) - y).square().mean()
    function, parameters = wy.jax.lower(loss, inputs=[x, y], model=model)
    adam = optax.adam(0.1)
    state = adam.init(parameters)
    step = jax.jit(jax.value_and_grad(function))
    program = wy.compile(loss, wy.optim.Adam(model.parameters(), 0.1))
    for _ in range(5):
        value, gradients = step(parameters, data, target)
        updates, state = adam.update(gradients, state)
        parameters = optax.apply_updates(parameters, updates)
        np.testing.assert_allclose(value, program({x: data, y: target}), rtol=1e-5)


def test_errors() -> None:
    x, w = wy.Input(dims=(Batch(), 3), name="x"), wy.Parameter(np.ones((3, 2), np.float32), name="w")
    rows, table = wy.IndexInput(dims=(Batch(),), name="rows"), wy.Parameter(np.ones((4, 2), np.float32), name="table")
    output = x @ w + table.index(rows)
    with pytest.raises(NotSet, match=r"rows.*list it among inputs"):
        wy.jax.lower(output, inputs=[x])
    with pytest.raises(OptionError, match=r"is not a leaf"):
        wy.jax.lower(output, inputs=[output])
    with pytest.raises(OptionError, match=r"other .*no input of the graph"):
        wy.jax.lower(output, inputs=[x, rows, wy.Input(dims=(), name="other")])
    with pytest.raises(OptionError, match="twice"):
        wy.jax.lower(output, inputs=[x, rows, x])
    function, parameters = wy.jax.lower(output, inputs=[x, rows])
    data, index = np.ones((2, 3), np.float32), np.array([0, 3])
    assert function(parameters, data, index).shape == (2, 2)
    with pytest.raises(OptionError, match="takes 2 inputs, not 1"):
        function(parameters, data)
    with pytest.raises(OptionError, match=r"missing: \['w'\]; that the graph does not have: \['v'\]"):
        function({"v": 1.0, "table": parameters["table"]}, data, index)
    with pytest.raises(ShapeError, match=r"Batch is [23] in the data of"):
        function(parameters, data, np.array([0, 1, 2]))
    with pytest.raises(ShapeError, match=r"x .* axis 1 is 3, the data has 4"):
        function(parameters, np.ones((2, 4)), index)
    with pytest.raises(DTypeError, match=r"rows .* float32"):
        function(parameters, data, np.ones(2, np.float32))
    with pytest.raises(IndexOutOfRange, match=r"rows .* holds 4 at position \(1,\)"):
        function(parameters, data, np.array([0, 4]))
    with pytest.raises(ShapeError, match="step must be an integer"):
        function(parameters, data, index, step=jnp.ones(2))
    numbers = wy.IndexInput(dims=(Batch(),), name="numbers")
    sums, _ = wy.jax.lower(numbers + 1, inputs=[numbers])
    with pytest.raises(IndexOutOfRange, match=r"numbers .* integers of 32 bits"):
        sums({}, np.array([2**40]))
    wide = wy.Parameter(np.ones(2), name="wide")
    with pytest.raises(DTypeError, match=r"wide .* float64, which JAX has not enabled"):
        wy.jax.lower(wide.sum())


def test_a_derivative_that_an_op_does_not_have() -> None:
    a, x = wy.Parameter([1.5], name="a"), wy.Parameter([0.5], name="x")
    function, parameters = wy.jax.lower(wy.special.gammainc(a, x).sum())
    gradient: Any = jax.grad(lambda x: function({**parameters, "x": x}))(parameters["x"])
    np.testing.assert_allclose(
        gradient, wy.grad(wy.special.gammainc(wy.Constant([1.5]), x).sum(), x).forward(), rtol=1e-5
    )


def test_without_jax_the_error_says_what_to_install() -> None:
    error = error_without("jax", "wy.jax.lower(wy.Parameter([1.0]).sum())")
    assert 'wy.jax.lower needs JAX: pip install "wyrm-autodiff[jax]"' in error


def test_a_lowered_function_is_the_apply_function_of_a_flax_train_state() -> None:
    train_state = pytest.importorskip("flax.training.train_state")
    x, y, model = wy.Input(dims=(Batch(), 3)), wy.Input(dims=(Batch(), 2)), wy.nn.Linear(3, 2)
    function, parameters = wy.jax.lower((model(x) - y).square().mean(), inputs=[x, y], model=model)
    state = train_state.TrainState.create(apply_fn=function, params=parameters, tx=optax.sgd(0.1))
    data, target = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)
    losses = []
    for _ in range(3):
        loss, gradients = jax.value_and_grad(state.apply_fn)(state.params, data, target)
        state = state.apply_gradients(grads=gradients)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True) and losses[2] < losses[0]


def test_orbax_saves_and_restores_the_parameters(tmp_path: Path) -> None:
    checkpoints = pytest.importorskip("orbax.checkpoint")
    x, model = wy.Input(dims=(Batch(), 3)), MLP().eval()
    _, parameters = wy.jax.lower(model(x), inputs=[x], model=model)
    with checkpoints.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "parameters", parameters)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "parameters", parameters)
    assert {name: array.tolist() for name, array in restored.items()} == {
        name: array.tolist() for name, array in parameters.items()
    }


def test_row_sparse_gradients_are_dense_ones_of_jax() -> None:
    table, rows = wy.Parameter(np.ones((6, 2), np.float32), name="table"), wy.IndexInput(dims=(Batch(),), name="rows")
    function, parameters = wy.jax.lower(table.index(rows).square().sum(), inputs=[rows])
    gradient: Any = jax.jit(jax.grad(function))(parameters, jnp.array([1, 1, 4]))
    np.testing.assert_array_equal(gradient["table"][:, 0], [0, 4, 0, 0, 2, 0])


def test_products_with_the_hessian_of_a_language_model() -> None:
    config = wy.nn.GPT2Config(vocab_size=12, n_positions=6, n_embd=8, n_layer=1, n_head=2)
    tokens, following = wy.IndexInput(dims=(Batch(), 6)), wy.IndexInput(dims=(Batch(), 6))
    model = wy.nn.GPT2(config, seed=3).eval()
    function, parameters = wy.jax.lower(model.loss(tokens, following), [tokens, following], model=model)
    data = np.arange(12).reshape(2, 6) % 12

    def loss(values: Any) -> Any:
        return function(values, data, 11 - data)

    directions = {name: np.cos(each) for name, each in parameters.items()}

    def along(values: Any) -> Any:
        gradients = jax.grad(loss)(values)
        return sum((gradients[name] * directions[name]).sum() for name in gradients)

    def derivatives(values: Any) -> Any:
        slope, forward_over_reverse = (jax.jvp(each, (values,), (directions,))[1] for each in (loss, jax.grad(loss)))
        terms = {name: abs(each * directions[name]).sum() for name, each in jax.grad(loss)(values).items()}
        return slope, along(values), sum(terms.values()), forward_over_reverse, jax.grad(along)(values)

    # One function compiles in less time than each operation of it.
    slope, expected, terms, forward_over_reverse, reverse_over_reverse = jax.jit(derivatives)(parameters)
    # The terms cancel: the sum of their sizes is the scale.
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-6 * float(terms))
    for name, found in forward_over_reverse.items():
        np.testing.assert_allclose(found, reverse_over_reverse[name], rtol=1e-3, atol=1e-5, err_msg=name)
