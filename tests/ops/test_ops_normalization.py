"""Normalizations against PyTorch and JAX: kernels, extreme numbers, axes with sizes from the data, errors."""

from __future__ import annotations

from functools import partial
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.samples.normalization import gradients, normalized
from wyrm.errors import DTypeError, ShapeError
from wyrm.ops.normalization.normalization import LayerNorm, NormalizationGradient, NormalizationWeightGradient, RMSNorm
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Features(wy.Dim): ...


class Other(wy.Dim): ...


KINDS = ["layer", "layer-without-bias", "rms"]
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-9}


def arrays(kind: str, *shape: int, dtype: Any = np.float64) -> tuple[Any, ...]:
    """Return an operand, its weight and, for `kind == "layer"`, its bias."""
    random = np.random.default_rng(1)
    vectors = 2 if kind == "layer" else 1
    x = random.normal(2.0, 3.0, size=shape)
    return tuple(a.astype(dtype) for a in (x, *(random.normal(size=shape[-1]) for _ in range(vectors))))


def build(kind: str, x: Any, weight: Any, *bias: Any, epsilon: float = 1e-5) -> Any:
    if kind == "rms":
        return RMSNorm(x, weight, epsilon)
    return LayerNorm(x, weight, bias[0] if bias else None, epsilon)


def jax_norm(kind: str, x: Any, weight: Any, bias: Any = 0.0) -> Any:
    if kind == "rms":
        return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5) * weight
    return jax.nn.standardize(x, axis=-1, epsilon=1e-5, algorithm="stable") * weight + bias


@partial(jax.jit, static_argnums=0)  # one function compiles in less time than each operation of it
def value_and_gradients_by_jax(kind: str, operands: tuple[Any, ...], cotangent: Any) -> tuple[Any, Any]:
    value, by_cotangent = jax.vjp(partial(jax_norm, kind), *operands)
    return value, by_cotangent(cotangent)


def gradient_nodes(node: Any, cotangent: Any) -> tuple[Any, Any]:
    """Return the two gradient nodes of a normalization."""
    x_gradient, weight_gradient = node.vjp(cotangent)[:2]
    return x_gradient, weight_gradient.parents[0]


def run_kernel(node: Any) -> Any:
    """Return what the kernel of a node, run as plain Python, writes into a buffer of NaN."""
    operands = [np.ascontiguousarray(parent.forward()) for parent in node.parents]
    out = np.full(node.shape, np.nan, node.dtype)
    rule: Any = wy.LOOPS.of(node)
    rule.kernel(*rule.kernel_arguments(node, operands, out))
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 3, 6), (2, 1, 3, 6), (4, 1), (0, 6), (3, 0, 6), (7, 768)])
def test_values_and_gradients_are_those_of_pytorch_and_jax(kind: str, shape: tuple[int, ...], dtype: Any) -> None:
    operands = arrays(kind, *shape, dtype=dtype)
    cotangent = np.random.default_rng(2).normal(size=shape).astype(dtype)
    leaves = [wy.Parameter(array) for array in operands]
    node = build(kind, *leaves)
    (node * cotangent).sum().backward()
    value, gradient_values = node.forward(), [leaf.gradient for leaf in leaves]
    tolerance = TOLERANCE[dtype]
    wide, wide_cotangent = [array.astype(np.float64) for array in operands], cotangent.astype(np.float64)
    options: dict[str, Any] = {"centred": kind != "rms", "epsilon": 1e-5}
    with jax.enable_x64(True):
        theirs, jax_gradients = value_and_gradients_by_jax(kind, tuple(wide), wide_cotangent)
    torch_gradients = gradients(*wide, cotangent=wide_cotangent, **options)
    for expected in (normalized(*wide, **options), theirs):
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
    for oracle in (torch_gradients, jax_gradients):
        for ours, expected in zip(gradient_values, oracle, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 3, 17), (4, 1), (0, 6)])
def test_kernels_equal_evaluate(kind: str, shape: tuple[int, ...], dtype: Any) -> None:
    node = build(kind, *(wy.Parameter(array) for array in arrays(kind, *shape, dtype=dtype)))
    cotangent = wy.Constant(np.random.default_rng(2).normal(size=shape).astype(dtype))
    tolerance = 2e-6 if dtype == np.float32 else 1e-14
    for op in (node, *gradient_nodes(node, cotangent)):
        np.testing.assert_allclose(run_kernel(op), op.forward(), rtol=tolerance * 10, atol=tolerance * 10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 2, 3)])
def test_gradients_to_second_order(kind: str, shape: tuple[int, ...]) -> None:
    check_grads(build(kind, *(wy.Parameter(array) for array in arrays(kind, *shape)), epsilon=1e-2))


@pytest.mark.parametrize("kind", KINDS)
def test_the_third_order(kind: str) -> None:
    check_grads(build(kind, *(wy.Parameter(array) for array in arrays(kind, 2, 3)), epsilon=0.1), order=3)


def test_one_node_as_weight_and_bias_gets_the_gradients_of_both() -> None:
    x, vector = (wy.Parameter(array) for array in arrays("rms", 2, 3))
    check_grads(LayerNorm(x, vector, vector, epsilon=0.1))


def test_one_node_as_operand_weight_and_bias() -> None:
    x = wy.Parameter(np.array([0.5, 2.0, -1.0]))
    check_grads(LayerNorm(x, x, x, epsilon=0.1))
    check_grads(RMSNorm(x, x, epsilon=0.1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [0.0, 1.0, -0.1, 1e4, 1e-20, 1.1e15])
def test_layer_norm_of_a_constant_row_is_the_bias(constant: float, dtype: Any) -> None:
    _, weight, bias = arrays("layer", 2, 77, dtype=dtype)
    x = wy.Parameter(np.full((2, 77), constant, dtype))
    node = LayerNorm(x, wy.Constant(weight), wy.Constant(bias))
    for value in (node.forward(), run_kernel(node), wy.compile(node)()):
        np.testing.assert_array_equal(value, np.broadcast_to(bias, (2, 77)))
    node.square().sum().backward()
    assert np.isfinite(x.gradient).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [1.0, -3.0, 1e4, 1e15])
def test_rms_norm_of_a_constant_row_is_the_weight_by_sign(constant: float, dtype: Any) -> None:
    _, weight = arrays("rms", 2, 8, dtype=dtype)
    node = RMSNorm(wy.Constant(np.full((2, 8), constant, dtype)), wy.Constant(weight), epsilon=0.0)
    for value in (node.forward(), run_kernel(node)):
        np.testing.assert_allclose(value, np.sign(constant) * np.stack([weight] * 2), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e15), (np.float64, 1e150)])
def test_huge_numbers_are_normalized_like_others(kind: str, dtype: Any, size: float) -> None:
    x, *vectors = arrays(kind, 3, 8, dtype=dtype)
    constants = [wy.Constant(vector) for vector in vectors]
    plain, huge = wy.Parameter(x), wy.Parameter(x * dtype(size))
    ours, expected = build(kind, huge, *constants), build(kind, plain, *constants, epsilon=0.0)
    tolerance = TOLERANCE[dtype]
    for value in (ours.forward(), run_kernel(ours)):
        np.testing.assert_allclose(value, expected.forward(), rtol=tolerance, atol=tolerance)
    cotangent = np.random.default_rng(2).normal(size=(3, 8)).astype(dtype)
    for node in (ours, expected):
        (node * cotangent).sum().backward()
    np.testing.assert_allclose(huge.gradient * dtype(size), plain.gradient, rtol=tolerance * 10, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e-30), (np.float64, 1e-200)])
def test_tiny_numbers_are_divided_by_the_root_of_epsilon(kind: str, dtype: Any, size: float) -> None:
    x, weight, *bias = arrays(kind, 3, 8, dtype=dtype)
    tiny = x * dtype(size)
    node = build(kind, *map(wy.Constant, (tiny, weight, *(0.0 * b for b in bias))))
    wide = tiny.astype(np.float64)
    distance = wide if kind == "rms" else wide - wide.mean(-1, keepdims=True)
    for value in (node.forward(), run_kernel(node)):
        np.testing.assert_allclose(value, distance * weight / np.sqrt(1e-5), rtol=1e-4, atol=0.0)


def test_rows_far_from_zero_lose_no_digits() -> None:
    x = 1e4 + np.random.default_rng(3).normal(size=(4, 512))
    narrow = x.astype(np.float32)
    node = LayerNorm(wy.Constant(narrow), wy.Constant(np.ones(512, np.float32)))
    expected = normalized(narrow.astype(np.float64), np.ones(512), epsilon=1e-5)
    for value in (node.forward(), run_kernel(node), wy.compile(node)()):
        np.testing.assert_allclose(value, expected, rtol=0.0, atol=1e-3)  # half a spacing at 1e4 is 5e-4


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinity_stay_in_their_row(kind: str) -> None:
    x, *vectors = arrays(kind, 3, 4)
    x[1, 2] = np.nan
    node = build(kind, wy.Constant(x), *map(wy.Constant, vectors))
    for value in (node.forward(), run_kernel(node)):
        assert np.isnan(value[1]).all() and np.isfinite(value[[0, 2]]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_leading_axes_may_get_their_sizes_from_the_data(kind: str) -> None:
    full, *vectors = arrays(kind, 4, 5, 6)
    x = wy.Input(dims=(Batch(), Time(), Features(6)), dtype=np.float64)
    parameters = [wy.Parameter(vector, (Features,)) for vector in vectors]
    node = build(kind, x, *parameters)
    assert node.dims == (Batch(), Time(), Features(6))
    gradient_values = wy.grad(node.square().sum(), [x, *parameters])
    second = wy.grad(gradient_values[0].square().sum(), [x, *parameters])
    program = wy.compile([node, *gradient_values, *second])
    options: dict[str, Any] = {"centred": kind != "rms", "epsilon": 1e-5}
    for batch, time in ((4, 5), (2, 3), (0, 5), (2, 0)):
        data = full[:batch, :time]
        x.set(data)
        value = normalized(data, *vectors, **options)
        expected = gradients(data, *vectors, cotangent=2.0 * value, **options)
        np.testing.assert_allclose(node.forward(), value, rtol=1e-9, atol=1e-12)
        for ours, theirs in zip(gradient_values, expected, strict=True):
            np.testing.assert_allclose(ours.forward(), theirs, rtol=1e-9, atol=1e-9)
        native = program({x: data})
        for ours, theirs in zip(native, (node, *gradient_values, *second), strict=True):
            np.testing.assert_allclose(ours, theirs.forward(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_the_same_in_native_code(kind: str) -> None:
    data, *vectors = arrays(kind, 12, 6, dtype=np.float32)
    x = wy.Input(dims=(Batch(), 6))
    losses = []
    for native in (False, True):
        parameters = [wy.Parameter(vector.copy()) for vector in vectors]
        loss = (build(kind, x * parameters[0], *parameters) - 1.0).square().mean()
        optimizer = wy.optim.SGD(parameters, learning_rate=0.1)
        train = wy.compile(loss, optimizer) if native else None
        for start in range(0, 12, 4):
            if train is not None:
                train({x: data[start : start + 4]})
                continue
            x.set(data[start : start + 4])
            loss.backward()
            optimizer.step()
            loss.zero_gradient()
        losses.append([parameter.value.copy() for parameter in parameters])
    for ours, theirs in zip(*losses, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_methods_take_nodes_and_arrays() -> None:
    x, weight, bias = arrays("layer", 3, 4, dtype=np.float32)
    node = wy.Constant(x)
    layer = normalized(x, weight, bias, epsilon=1e-5)
    for value in (node.layer_norm(weight, bias), node.layer_norm(wy.Constant(weight), wy.Constant(bias))):
        assert type(value) is LayerNorm and value.epsilon == 1e-5
        np.testing.assert_allclose(value.forward(), layer, rtol=1e-5, atol=1e-6)
    root = node.rms_norm(weight.astype(np.float64), epsilon=0.5)
    assert type(root) is RMSNorm and root.epsilon == 0.5 and root.dtype == np.float32
    np.testing.assert_allclose(root.forward(), normalized(x, weight, centred=False, epsilon=0.5), rtol=1e-5, atol=1e-6)
    assert len(node.layer_norm(weight).parents) == 2


def test_types_are_exact() -> None:
    batch, time, features = Batch(2), Time(3), Features(4)
    x, row = wy.Input(dims=(batch, time, features)), wy.Input(dims=(features,))
    weight, bias = wy.Parameter([1.0] * 4, (features,)), wy.Parameter([0.0] * 4, (features,))
    assert_type(
        x.layer_norm(weight, bias), LayerNorm[wy.Input[tuple[Batch, Time, Features]], tuple[Batch, Time, Features]]
    )
    assert_type(x.rms_norm(weight), RMSNorm[wy.Input[tuple[Batch, Time, Features]], tuple[Batch, Time, Features]])
    assert_type(x.layer_norm(weight, bias).erase(), wy.Tensor[Batch, Time, Features])
    assert_type(x.rms_norm(weight).erase(), wy.Tensor[Batch, Time, Features])
    assert_type(row.layer_norm(weight).erase(), wy.Tensor[Features])
    assert_type(x.rms_norm(np.ones(4)).erase(), wy.Tensor[Batch, Time, Features])
    unknown = wy.Input(dims=(2, 3, 4))
    declared: wy.Tensor[Batch, Time, Features] = unknown.layer_norm(weight, bias)
    assert declared.shape == (2, 3, 4) and declared.dims[2] is features
    assert x.layer_norm(weight, bias).dims == (batch, time, features)


def test_an_axis_of_another_name_is_an_error() -> None:
    x = wy.Input(dims=(Batch(2), Features(4)), name="x")
    weight = wy.Parameter([1.0] * 4, (Other(4),), name="weight")
    with pytest.raises(ShapeError, match="equal sizes, different names") as error:
        x.rms_norm(weight)  # type: ignore[arg-type]  # the mistake that mypy finds
    message = str(error.value)
    assert "rms_norm(epsilon=1e-05)" in message and "weight (Other(4),) float32" in message
    assert "x.rms_norm(weight)" in message
    with pytest.raises(ShapeError, match="equal sizes, different names"):
        x.layer_norm(weight)  # type: ignore[arg-type]  # the mistake that mypy finds


@pytest.mark.parametrize(
    ("x", "vectors", "reason"),
    [
        ((2, 4), [(5,)], r"4 against 5"),
        ((2, 4), [(4,), (5,)], r"4 against 5"),
        ((2, 4), [(1,)], r"4 against 1"),
        ((2, 4), [(2, 4)], r"weight must have one axis, the last of x, 4, not \(2, 4\)"),
        ((2, 4), [()], r"weight must have one axis, the last of x, 4, not \(\)"),
        ((2, 4), [(4,), (2, 4)], r"bias must have one axis"),
        ((), [(4,)], r"normalizes over the last axis, but x is a scalar"),
        ((2, 0), [(0,)], r"the last axis has size 0, so there is nothing to normalize"),
    ],
)
def test_operands_of_wrong_axes_are_an_error_with_the_users_line(x: Any, vectors: Any, reason: str) -> None:
    names = "x", "weight", "bias"
    nodes: list[Any] = [wy.Input(dims=dims, name=name) for name, dims in zip(names, (x, *vectors), strict=False)]
    with pytest.raises(ShapeError, match=reason) as error:
        LayerNorm(*nodes)
    assert "layer_norm(epsilon=1e-05)" in str(error.value) and "LayerNorm(*nodes)" in str(error.value)
    if len(nodes) == 2:
        with pytest.raises(ShapeError, match=reason) as error:
            RMSNorm(*nodes)
        assert "rms_norm(epsilon=1e-05)" in str(error.value) and "RMSNorm(*nodes)" in str(error.value)


@pytest.mark.parametrize("epsilon", [-1e-5, np.nan, np.inf])
def test_an_epsilon_out_of_range_is_an_error(epsilon: float) -> None:
    x = wy.Input(dims=(2, 4))
    with pytest.raises(ShapeError, match="epsilon must be finite and at least 0, not"):
        x.layer_norm(np.ones(4), epsilon=epsilon)
    with pytest.raises(ShapeError, match="epsilon must be finite and at least 0, not"):
        x.rms_norm(np.ones(4), epsilon=epsilon)


def test_a_last_axis_of_size_0_in_the_data_is_an_error() -> None:
    features = Features()
    x, weight = wy.Input(dims=(2, features)), wy.Input(dims=(features,))
    node = LayerNorm(x, weight)
    x.set(np.zeros((2, 0)))
    weight.set(np.zeros(0))
    for run in (node.forward, node.vjp(x)[0].forward, node.vjp(x)[1].parents[0].forward):
        with pytest.raises(ShapeError, match="the last axis has size 0 in the data of this run"):
            run()
    with pytest.raises(ShapeError, match="the last axis has size 0 in the data of this run"):
        wy.compile(node)({x: np.zeros((2, 0)), weight: np.zeros(0)})
    weight.set(np.ones(3))
    x.set(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    assert node.forward().shape == (2, 3)


def test_masks_and_integers_are_errors() -> None:
    x, weight = wy.Input(dims=(2, 4), name="x"), wy.Input(dims=(4,), name="weight")
    with pytest.raises(DTypeError, match=r"is a mask; convert it with \.astype"):
        (x > 0.0).layer_norm(weight)
    with pytest.raises(DTypeError, match=r"is a mask; convert it with \.astype"):
        x.rms_norm(weight > 0.0)
    rows: Any = wy.IndexInput(dims=(4,), name="rows")
    with pytest.raises(DTypeError, match="rows holds integers"):
        LayerNorm(x, rows)


def test_two_float_types_do_not_mix() -> None:
    x = wy.Input(dims=(2, 4), name="x")
    with pytest.raises(DTypeError, match="do not mix") as error:
        x.layer_norm(wy.Input(dims=(4,), dtype=np.float64))
    assert "x.layer_norm(wy.Input(dims=(4,), dtype=np.float64))" in str(error.value)


def test_a_string_as_weight_is_an_error() -> None:
    with pytest.raises(TypeError, match="not str"):
        wy.Input(dims=(2, 4)).layer_norm("weight")  # type: ignore[arg-type]  # the mistake that mypy finds


def test_gradients_of_another_shape_are_errors() -> None:
    x, weight = wy.Input(dims=(2, 4)), wy.Input(dims=(4,))
    with pytest.raises(ShapeError, match=r"\(2, 4\) against \(4,\)"):
        NormalizationGradient(x, weight, weight, centred=True, epsilon=1e-5)
    with pytest.raises(ShapeError, match="2 against 3"):
        NormalizationWeightGradient(x, wy.Input(dims=(3, 4)), centred=True, biased=True, epsilon=1e-5)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_numbers_whose_squares_overflow_are_the_same_in_every_engine(kind: str) -> None:
    x = wy.Parameter(np.array([[1e20, -3e20, 2e20], [1.0, 2.0, 4.0]], np.float32))
    ones = np.ones(3, np.float32)
    node: Any = x.layer_norm(ones) if kind == "layer" else x.rms_norm(ones)
    gradient = wy.grad((node * np.arange(3.0)).sum(), x)
    native, native_gradient = wy.compile([node, gradient])()
    np.testing.assert_allclose(node.forward(), native, rtol=1e-6)
    np.testing.assert_allclose(gradient.forward(), native_gradient, rtol=1e-4, atol=1e-7)
    assert (native[0] == 0.0).all()  # as in JAX
