"""Attention against PyTorch and JAX: lengths, sizes, shared heads, masks, gradients, causality, errors."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import DTypeError, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Keys(wy.Dim): ...


def operands(batch: int, time: int, heads: int, features: int, dtype: Any) -> tuple[Any, Any]:
    random = np.random.default_rng(time + features)
    qkv = random.normal(size=(batch, time, 3, heads, features)).astype(dtype)
    return qkv, random.normal(size=(batch, time, heads, features)).astype(dtype)


def torch_attention(qkv: Any, cotangent: Any, causal: bool, mask: Any = None) -> tuple[Any, Any]:
    """Return the result and the gradient of PyTorch's fused attention."""
    leaf = torch.tensor(qkv).requires_grad_()
    queries, keys, values = (leaf[:, :, i].transpose(1, 2) for i in range(3))
    allowed = None if mask is None else torch.tensor(mask)[:, None]
    result = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=allowed, is_causal=causal
    ).transpose(1, 2)
    result.backward(torch.tensor(cotangent))
    assert leaf.grad is not None
    return result.detach().numpy(), leaf.grad.numpy()


def jax_attention(qkv: Any, causal: bool) -> Any:
    """Return JAX's result."""
    import jax

    # One function compiles in less time than each operation of it.
    function = jax.jit(jax.nn.dot_product_attention, static_argnames="is_causal")
    return np.asarray(function(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=causal))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths_and_sizes_as_in_torch(dtype: Any, causal: bool) -> None:
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    shapes = [(2, 1, 3, 4), (2, 7, 2, 5), (2, 128, 2, 4), (1, 33, 1, 64), (1, 128, 1, 128), (1, 1024, 1, 16)]
    nodes: list[Any] = []
    expected: list[Any] = []
    for shape in shapes:
        qkv, cotangent = operands(*shape, dtype)
        leaf = wy.Parameter(qkv)
        seed = wy.Input(cotangent)
        node = wy.attention(leaf, causal=causal)
        (gradient,) = wy.vjp(node, [leaf], seed)
        nodes += [node, gradient]
        expected += torch_attention(qkv, cotangent, causal)
        if dtype is np.float32:
            np.testing.assert_allclose(node.forward(), jax_attention(qkv, causal), rtol=2e-4, atol=2e-5)
    results = wy.compile(nodes, loop="python")()
    for actual, node, desired in zip(results, nodes, expected, strict=True):
        np.testing.assert_allclose(node.forward(), desired, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance)


def test_masks_as_in_torch() -> None:
    qkv, cotangent = operands(2, 9, 2, 4, np.float64)
    mask = np.random.default_rng(0).random((2, 9, 9)) < 0.6
    mask[:, range(9), range(9)] = True
    leaf = wy.Parameter(qkv)
    node = wy.attention(leaf, wy.Input(mask))
    result, expected_gradient = torch_attention(qkv, cotangent, False, mask)
    np.testing.assert_allclose(node.forward(), result, rtol=1e-12)
    (gradient,) = wy.vjp(node, [leaf], wy.Constant(cotangent))
    np.testing.assert_allclose(gradient.forward(), expected_gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("loop", ["reference", "python"])
def test_a_future_token_has_no_influence_at_all(loop: Any) -> None:
    qkv, cotangent = operands(1, 40, 2, 4, np.float32)
    prefixes = []
    for changed in (False, True):
        if changed:
            qkv[:, 25:] = 1e6
            cotangent[:, 25:] = 0.0
        else:
            cotangent[:, 25:] = 0.0
        leaf = wy.Parameter(qkv)
        node = wy.attention(leaf, causal=True)
        (gradient,) = wy.vjp(node, [leaf], wy.Constant(cotangent))
        results = wy.run([node, gradient]) if loop == "reference" else wy.compile([node, gradient], loop="python")()
        prefixes.append([np.asarray(part)[:, :25] for part in results])
    for before, after in zip(*prefixes, strict=True):
        np.testing.assert_array_equal(before, after)


def test_dropout_keeps_the_expected_number_of_keys_and_is_the_same_in_every_engine() -> None:
    qkv, _ = operands(2, 64, 2, 4, np.float32)
    qkv[:, :, :2] = 0.0  # every key alike
    qkv[:, :, 2] = 1.0
    node = wy.attention(wy.Parameter(qkv), dropout_rate=0.25, seed=3)
    wy.random.set_step(0)  # a compiled program starts at step 0 as well
    first = node.forward()
    np.testing.assert_allclose(wy.compile(node, loop="python")({}), first, rtol=1e-5)
    assert first.mean() == pytest.approx(1.0, abs=0.01)
    kept_keys = first[..., 0] * 64 * 0.75
    assert kept_keys.mean() == pytest.approx(48.0, abs=1.0) and 2.0 < kept_keys.std() < 5.0
    assert (node.forward() != first).mean() > 0.8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("masked", [None, (2, 151, 151), (1, 1, 151)])
@pytest.mark.parametrize(("causal", "alibi"), [(True, False), (False, True), (True, True)])
def test_native_loops_over_several_tiles_equal_the_reference(
    dtype: Any, rate: float, masked: Any, causal: bool, alibi: bool
) -> None:
    allowed: Any = None
    if masked:
        allowed = np.random.default_rng(1).random(masked) < 0.5
        allowed[:, 1:2] = False  # a query that may attend to no key
        allowed = wy.Input(allowed)
    nodes: list[Any] = []
    for features in (4, 5, 8):  # columns of scores for multiples of four, else blocks
        qkv, cotangent = operands(2, 151, 2, features, dtype)
        leaf, seed = wy.Parameter(qkv), wy.Input(cotangent)
        node = wy.attention(leaf, allowed, causal=causal, alibi=alibi, dropout_rate=rate)
        nodes += [node, *wy.vjp(node, [leaf], seed)]
    wy.random.set_step(0)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for actual, desired in zip(wy.compile(nodes, loop="python")(), wy.run(nodes), strict=True):
        np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_nan_and_infinity_propagate_as_in_jax(wrong: float, part: int) -> None:
    for features in (4, 5):
        qkv, _ = operands(1, 70, 1, features, np.float32)
        qkv[0, 40, part, 0, 1] = wrong
        leaf = wy.Input(dims=qkv.shape, finite=False)
        with np.errstate(invalid="ignore"):
            results, desired = (
                np.isfinite(wy.compile(wy.attention(leaf, causal=True), loop="python")({leaf: qkv})),
                np.isfinite(jax_attention(qkv, True)),
            )
        np.testing.assert_array_equal(results[:, 40:], desired[:, 40:])
        # JAX multiplies later values by zeros, which gives NaN too. Here that is so only within a tile of queries.
        assert np.all(results[:, :40] >= desired[:, :40])
        assert np.all(results[:, :32]) or features == 5


def test_axes_may_get_their_sizes_from_the_data() -> None:
    dims: Any = Batch(), Time(), 3, 2, 4
    leaf: Any = wy.Input(dims=dims, dtype=np.float64)
    node = wy.attention(leaf, causal=True)
    (gradient,) = wy.grad(node.square().sum(), [leaf])
    for batch, time in ((2, 5), (3, 1)):
        qkv, _ = operands(batch, time, 2, 4, np.float64)
        leaf.set(qkv)
        assert node.dims == (Batch(), Time(), 2, 4)
        result = node.forward()
        np.testing.assert_allclose(gradient.forward(), torch_attention(qkv, 2.0 * result, True)[1], 1e-10, 1e-14)


@pytest.mark.parametrize(
    ("qkv", "mask", "reason"),
    [
        ((2, 5, 2, 2, 4), None, r"must have the axes \(batch, time, 3, heads, features\), with"),
        ((2, 5, 3, 8), None, r"must have the axes \(batch, time, 3, heads, features\), with"),
        ((2, 5, 3, 2, 4), (5, 5), r"the mask must have the axes \(batch, queries, keys\), not \(5, 5\)"),
        ((2, 5, 3, 2, 4), (2, 5, 6), r"5 against 6"),
        ((2, 5, 3, 2, 4), (3, 5, 5), r"2 against 3"),
        ((2, 5, 3, 2, 0), None, r"the axis of features has size 0"),
    ],
)
def test_operands_of_wrong_axes_are_an_error_with_the_users_line(qkv: Any, mask: Any, reason: str) -> None:
    allowed = None if mask is None else wy.Input(np.ones(mask, np.bool_))
    with pytest.raises(ShapeError, match=reason) as error:
        wy.attention(wy.Input(np.zeros(qkv)), allowed)
    assert "wy.attention(wy.Input" in str(error.value)


def test_a_float_mask_and_a_rate_out_of_range_are_errors() -> None:
    qkv = wy.Input(np.zeros((2, 5, 3, 2, 4)))
    with pytest.raises(DTypeError, match=r"the mask must have dtype bool, like x > 0; .* is float64"):
        wy.attention(qkv, wy.Input(np.ones((2, 5, 5))))
    for rate in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"attention of .*: dropout_rate must be in \[0, 1\), not"):
            wy.attention(qkv, dropout_rate=rate)


# --- queries, keys and values apart -----------------------------------------------------------------------------------

# Heads, heads of the keys, queries, keys, features, columns of the values.
SHAPES = [
    (6, 2, 151, 70, 4, 5),
    (4, 1, 40, 151, 8, 8),
    (4, 4, 1, 33, 64, 16),
    (2, 1, 97, 97, 5, 5),
    (6, 3, 64, 65, 3, 4),
]


def operands_apart(shape: tuple[int, ...], dtype: Any = np.float64) -> list[Any]:
    heads, shared, queries, keys, features, columns = shape
    random = np.random.default_rng(sum(shape))
    sizes = (heads, queries, features), (shared, keys, features), (shared, keys, columns), (heads, queries, columns)
    return [random.normal(size=(2, *size)).astype(dtype) for size in sizes]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shared_heads_and_their_gradients_are_pytorchs(shape: Any, causal: bool) -> None:
    *parts, cotangent = operands_apart(shape)
    theirs = [torch.tensor(part).requires_grad_() for part in parts]
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=causal, enable_gqa=True)
    expected.backward(torch.tensor(cotangent))
    leaves = [wy.Parameter(part) for part in parts]
    node = wy.scaled_dot_product_attention(*leaves, is_causal=causal)
    nodes = [node, *wy.vjp(node, leaves, wy.Constant(cotangent))]
    desired = [expected.detach().numpy(), *(leaf.grad.numpy() for leaf in theirs)]
    for values in (wy.run(nodes), wy.compile(nodes)(), wy.compile(nodes, engine="jax")()):
        for actual, want in zip(values, desired, strict=True):
            # JAX computes in float32.
            single = actual.dtype == np.float32
            np.testing.assert_allclose(actual, want, rtol=2e-4 if single else 1e-10, atol=2e-5 if single else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("masks", ["none", "masked", "biased", "dropout"])
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_engines_agree_about_masks_biases_and_dropout_of_several_tiles(shape: Any, masks: str, dtype: Any) -> None:
    heads, _, queries, keys, _, _ = shape
    *parts, cotangent = operands_apart(shape, dtype)
    mask: Any = None
    random, rate = np.random.default_rng(2), 0.0
    if masks == "masked":
        mask = wy.Constant(random.random((2, 1, queries, keys)) < 0.5)
    elif masks == "biased":
        mask = wy.Parameter(random.normal(size=(heads, queries, keys)).astype(dtype))
    elif masks == "dropout":
        rate = 0.3
    leaves = q, k, v = [wy.Parameter(part) for part in parts]
    node = wy.scaled_dot_product_attention(q, k, v, mask, is_causal=masks != "masked", scale=0.4, dropout_rate=rate)
    wrt = [*leaves, *([mask] if isinstance(mask, wy.Parameter) else [])]
    nodes = [node, *wy.vjp(node, wrt, wy.Constant(cotangent))]
    found = []
    for run in (lambda: wy.run(nodes), wy.compile(nodes), wy.compile(nodes, engine="jax")):
        wy.random.set_step(0)
        found.append(run())
    for reference, native, traced in zip(*found, strict=True):
        tolerance = 3e-5 if dtype is np.float32 else 1e-11
        np.testing.assert_allclose(native, reference, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(traced, reference, rtol=2e-4, atol=1e-4)


def test_shared_heads_have_gradients_to_second_order() -> None:
    for shape in ((4, 2, 3, 3, 4, 4), (4, 1, 2, 3, 3, 2)):
        q, k, v = map(wy.Parameter, operands_apart(shape)[:3])
        check_grads(wy.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("queries", [90, 40])
def test_no_array_holds_repeated_keys_or_scores(queries: int) -> None:
    heads, shared, keys, features, columns = 6, 2, 70, 8, 8
    *parts, cotangent = operands_apart((heads, shared, queries, keys, features, columns), np.float32)
    leaves = [wy.Parameter(part) for part in parts]
    node = wy.scaled_dot_product_attention(*leaves)
    nodes = [node, *wy.vjp(node, leaves, wy.Constant(cotangent))]
    repeated, scores = 2 * heads * keys * features, 2 * heads * queries * keys
    program = wy.compile(nodes)
    program()
    shapes = re.findall(r": \(([\d, ]+)\) float32", program.stages()["plan memory"])
    held = {math.prod(map(int, re.findall(r"\d+", shape))) for shape in shapes}
    assert repeated not in held
    if queries == 90:  # the largest array has the gradients of queries, keys and values
        assert max(held) == 2 * (heads * queries + 2 * shared * keys) * features < scores
    else:  # scores of few queries to another sequence are held
        assert max(held) == scores
    function, arguments = wy.jax.lower(nodes)
    text = jax.jit(function).lower(arguments).as_text()
    sizes = {math.prod(map(int, shape.split("x")[:-1])) for shape in re.findall(r"<((?:\d+x)+)f32>", text)}
    assert scores in sizes and repeated not in sizes  # scores of short sequences are one array there


@pytest.mark.parametrize("options", [{}, {"causal": True}])
def test_without_keys_or_queries_there_are_zeros(options: Any) -> None:
    for queries, keys in ((3, 0), (0, 3), (2, 3)):
        *parts, cotangent = operands_apart((4, 2, queries, keys, 4, 5))
        leaves = [wy.Parameter(part) for part in parts]
        node = wy.scaled_dot_product_attention(*leaves, is_causal=bool(options))
        nodes = [node, *wy.vjp(node, leaves, wy.Constant(cotangent))]
        for values in (wy.run(nodes), wy.compile(nodes)(), wy.compile(nodes, engine="jax")()):
            assert [value.shape for value in values] == [(2, 4, queries, 5), *(part.shape for part in parts)]
            assert all(value.any() == (queries == 2) for value in values)


def test_keys_after_all_queries_get_no_gradient() -> None:
    """Where queries are fewer than keys and attend to none after their own position."""
    q, k, v = map(wy.Parameter, operands_apart((2, 1, 3, 80, 4, 4))[:3])
    gradients = wy.grad(wy.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum(), [k, v])
    for _ in range(2):  # also in memory that an earlier run has left
        for value in wy.compile(gradients)():
            assert value[:, :, :3].any() and not value[:, :, 3:].any()


def test_many_axes_are_those_of_pytorch() -> None:
    random = np.random.default_rng(4)
    q, k = random.normal(size=(2, 3, 4, 5, 6)), random.normal(size=(2, 3, 2, 7, 6))
    for shape in ((5, 7), (3, 1, 5, 7), (2, 1, 4, 5, 1), (1, 1, 4, 1, 7)):
        mask = random.random(shape) < 0.7
        expected = torch.nn.functional.scaled_dot_product_attention(
            *map(torch.tensor, (q, k, k)), torch.tensor(mask), enable_gqa=True
        ).numpy()
        found = wy.scaled_dot_product_attention(wy.Constant(q), wy.Constant(k), wy.Constant(k), mask).forward()
        np.testing.assert_allclose(found, np.nan_to_num(expected), rtol=1e-9, atol=1e-12)
    with pytest.raises(ShapeError, match=r"a mask has at most the 3 axes"):
        wy.scaled_dot_product_attention(*(wy.Constant(q[0, 0]),) * 3, np.ones((1, 4, 5, 5), np.bool_))


def test_axes_without_sizes_have_gradients_too() -> None:
    for rows, columns in ((Time(), Time()), (Time(), Keys())):
        q: Any = wy.Input(dims=(Batch(), 4, rows, 3), dtype=np.float64)
        k: Any = wy.Input(dims=(Batch(), 2, columns, 3), dtype=np.float64)
        nodes = wy.grad(wy.scaled_dot_product_attention(q, k, k, is_causal=True).square().sum(), [q, k])
        run = wy.compile(nodes)
        for queries, keys in ((5, 5), (2, 2)) if isinstance(columns, Time) else ((5, 3), (2, 7)):
            queried, keyed, _, _ = operands_apart((4, 2, queries, keys, 3, 3))
            x, y = wy.Parameter(queried), wy.Parameter(keyed)
            desired = wy.grad(wy.scaled_dot_product_attention(x, y, y, is_causal=True).square().sum(), [x, y])
            for actual, want in zip(run({q: queried, k: keyed}), wy.run(desired), strict=True):
                np.testing.assert_allclose(actual, want, rtol=1e-10, atol=1e-12)
