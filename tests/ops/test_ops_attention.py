"""Attention against PyTorch and JAX: lengths, sizes, masks, gradients; no influence of the future; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def operands(batch: int, time: int, heads: int, features: int, dtype: Any) -> tuple[Any, Any]:
    random = np.random.default_rng(time + features)
    packed = random.normal(size=(batch, time, 3, heads, features)).astype(dtype)
    return packed, random.normal(size=(batch, time, heads, features)).astype(dtype)


def by_torch(packed: Any, given: Any, causal: bool, mask: Any = None) -> tuple[Any, Any]:
    """The result and the gradient of PyTorch's own fused attention."""
    import torch

    leaf = torch.tensor(packed).requires_grad_()
    queries, keys, values = (leaf[:, :, i].transpose(1, 2) for i in range(3))
    allowed = None if mask is None else torch.tensor(mask)[:, None]
    result = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=allowed, is_causal=causal
    ).transpose(1, 2)
    result.backward(torch.tensor(given))
    assert leaf.grad is not None
    return result.detach().numpy(), leaf.grad.numpy()


def by_jax(packed: Any, causal: bool) -> Any:
    """The result by JAX."""
    import jax

    return np.asarray(jax.nn.dot_product_attention(packed[:, :, 0], packed[:, :, 1], packed[:, :, 2], is_causal=causal))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths_and_sizes_as_in_torch(dtype: Any, causal: bool) -> None:
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    shapes = [(2, 1, 3, 4), (2, 7, 2, 5), (2, 128, 2, 4), (1, 33, 1, 64), (1, 128, 1, 128), (1, 1024, 1, 16)]
    nodes: list[Any] = []
    expected: list[Any] = []
    for shape in shapes:
        packed, given = operands(*shape, dtype)
        leaf = wy.Parameter(packed)
        seed = wy.Input(given)
        node = wy.attention(leaf, causal=causal)
        (gradient,) = wy.vjp(node, [leaf], seed)
        nodes += [node, gradient]
        expected += by_torch(packed, given, causal)
        if dtype is np.float32:
            np.testing.assert_allclose(node.forward(), by_jax(packed, causal), rtol=2e-4, atol=2e-5)
    found = wy.compile(nodes, loop="python")()
    for have, node, want in zip(found, nodes, expected, strict=True):
        np.testing.assert_allclose(node.forward(), want, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def test_masks_as_in_torch() -> None:
    packed, given = operands(2, 9, 2, 4, np.float64)
    mask = np.random.default_rng(0).random((2, 9, 9)) < 0.6
    mask[:, range(9), range(9)] = True
    leaf = wy.Parameter(packed)
    node = wy.attention(leaf, wy.Input(mask))
    result, slope = by_torch(packed, given, False, mask)
    np.testing.assert_allclose(node.forward(), result, rtol=1e-12)
    (gradient,) = wy.vjp(node, [leaf], wy.Constant(given))
    np.testing.assert_allclose(gradient.forward(), slope, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("loop", ["reference", "python"])
def test_a_future_token_has_no_influence_at_all(loop: Any) -> None:
    packed, given = operands(1, 40, 2, 4, np.float32)
    results = []
    for changed in (False, True):
        if changed:
            packed[:, 25:] = 1e6
            given[:, 25:] = 0.0
        else:
            given[:, 25:] = 0.0
        leaf = wy.Parameter(packed)
        node = wy.attention(leaf, causal=True)
        (gradient,) = wy.vjp(node, [leaf], wy.Constant(given))
        found = wy.run([node, gradient]) if loop == "reference" else wy.compile([node, gradient], loop="python")()
        results.append([np.asarray(part)[:, :25] for part in found])
    for before, after in zip(*results, strict=True):
        np.testing.assert_array_equal(before, after)


def test_dropout_keeps_what_it_should_and_is_the_same_in_every_engine() -> None:
    packed, _ = operands(2, 64, 2, 4, np.float32)
    packed[:, :, :2] = 0.0  # every key alike
    packed[:, :, 2] = 1.0
    node = wy.attention(wy.Parameter(packed), rate=0.25, seed=3)
    wy.random.set_step(0)  # where a program begins, too
    first = node.forward()
    np.testing.assert_allclose(wy.compile(node, loop="python")({}), first, rtol=1e-5)
    assert first.mean() == pytest.approx(1.0, abs=0.01)
    shares = first[..., 0] * 64 * 0.75  # how many keys were kept
    assert shares.mean() == pytest.approx(48.0, abs=1.0) and 2.0 < shares.std() < 5.0
    assert (node.forward() != first).mean() > 0.8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("masked", [None, (2, 151, 151), (1, 1, 151)])
@pytest.mark.parametrize(("causal", "alibi"), [(True, False), (False, True), (True, True)])
def test_native_loops_over_several_tiles_compute_what_the_reference_does(
    dtype: Any, rate: float, masked: Any, causal: bool, alibi: bool
) -> None:
    packed, given = operands(2, 151, 2, 5, dtype)
    leaf, seed = wy.Parameter(packed), wy.Input(given)
    allowed: Any = None
    if masked:
        allowed = np.random.default_rng(1).random(masked) < 0.5
        allowed[:, 1:2] = False  # a query that sees nothing
        allowed = wy.Input(allowed)
    node = wy.attention(leaf, allowed, causal=causal, alibi=alibi, rate=rate)
    (gradient,) = wy.vjp(node, [leaf], seed)
    wy.random.set_step(0)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for have, want in zip(wy.compile([node, gradient], loop="python")(), wy.run([node, gradient]), strict=True):
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_what_is_not_finite_is_not_hidden(wrong: float, part: int) -> None:
    packed, _ = operands(1, 70, 1, 4, np.float32)
    packed[0, 40, part, 0, 1] = wrong
    leaf = wy.Input(dims=(1, 70, 3, 1, 4), finite=False)
    with np.errstate(invalid="ignore"):
        found, want = wy.compile(wy.attention(leaf, causal=True), loop="python")({leaf: packed}), by_jax(packed, True)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(want))


def test_axes_may_get_their_sizes_from_the_data() -> None:
    dims: Any = Batch(), Time(), 3, 2, 4
    leaf: Any = wy.Input(dims=dims, dtype=np.float64)
    node = wy.attention(leaf, causal=True)
    (gradient,) = wy.grad(node.square().sum(), [leaf])
    for batch, time in ((2, 5), (3, 1)):
        packed, _ = operands(batch, time, 2, 4, np.float64)
        leaf.set(packed)
        assert node.dims == (Batch(), Time(), 2, 4)
        result = node.forward()
        np.testing.assert_allclose(gradient.forward(), by_torch(packed, 2.0 * result, True)[1], 1e-10, 1e-14)


@pytest.mark.parametrize(
    ("packed", "mask", "reason"),
    [
        ((2, 5, 2, 2, 4), None, r"has the axes \(batch, time, 3, heads, features\) here"),
        ((2, 5, 3, 8), None, r"has the axes \(batch, time, 3, heads, features\) here"),
        ((2, 5, 3, 2, 4), (5, 5), r"a mask has the axes \(batch, queries, keys\), not \(5, 5\)"),
        ((2, 5, 3, 2, 4), (2, 5, 6), r"5 against 6"),
        ((2, 5, 3, 2, 4), (3, 5, 5), r"2 against 3"),
        ((2, 5, 3, 2, 0), None, r"there are no features to compare"),
    ],
)
def test_what_does_not_fit_is_an_error_with_the_users_line(packed: Any, mask: Any, reason: str) -> None:
    allowed = None if mask is None else wy.Input(np.ones(mask, np.bool_))
    with pytest.raises(ShapeError, match=reason) as error:
        wy.attention(wy.Input(np.zeros(packed)), allowed)
    assert "wy.attention(wy.Input" in str(error.value)


def test_numbers_are_no_mask_and_rates_have_a_range() -> None:
    packed = wy.Input(np.zeros((2, 5, 3, 2, 4)))
    with pytest.raises(DTypeError, match=r"what is allowed is a mask, such as x > 0"):
        wy.attention(packed, wy.Input(np.ones((2, 5, 5))))
    for rate in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"rate is at least 0 and below 1"):
            wy.attention(packed, rate=rate)
