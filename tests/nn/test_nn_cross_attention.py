"""Cross-attention, grouped-query attention and masks against PyTorch."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from tests.samples.sample import normal
from wyrm.errors import DTypeError, ShapeError
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(5)


class Batch(wy.Dim): ...


class Heads(wy.Dim): ...


class Groups(wy.Dim): ...


class Queries(wy.Dim): ...


class Keys(wy.Dim): ...


class Features(wy.Dim): ...


class Columns(wy.Dim): ...


MASKS: dict[str, Any] = {
    "none": None,
    "bool": RANDOM.random((2, 4, 3, 5)) < 0.6,
    "shared": np.array([[True, False, True, False, True], [False, True, True, True, False], [True] * 5]),
    "float": RANDOM.normal(size=(2, 1, 3, 5)),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("is_causal", [False, True])
def test_values_and_gradients_are_pytorchs(name: str, heads: int, is_causal: bool) -> None:
    mask = MASKS[name]
    if is_causal and mask is not None:
        expected_mask: Any = torch.tensor(np.tri(3, 5, dtype=bool) & mask) if mask.dtype == bool else None
        if expected_mask is None:
            expected_mask = torch.tensor(np.where(np.tri(3, 5, dtype=bool), mask, -np.inf))
    else:
        expected_mask = None if mask is None else torch.tensor(mask)

    def expected(q: Any, k: Any, v: Any) -> Any:
        k, v = (x.repeat_interleave(4 // heads, dim=1) for x in (k, v))
        scores = q @ k.mT / 7**0.5
        if expected_mask is not None and expected_mask.dtype == torch.bool:
            scores = scores.masked_fill(~expected_mask, -1e30)
        elif expected_mask is not None:
            scores = scores + expected_mask.clamp(min=-1e30)
        elif is_causal:
            scores = scores.masked_fill(~torch.ones(3, 5, dtype=torch.bool).tril(), -1e30)
        weights = scores.softmax(-1)
        if expected_mask is not None and expected_mask.dtype == torch.bool:
            weights = weights * expected_mask
        return weights @ v

    arrays = [normal(2, 4, 3, 7), normal(2, heads, 5, 7), normal(2, heads, 5, 6)]

    def ours(q: Any, k: Any, v: Any) -> Any:
        return wy.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)

    check_against_torch(ours, expected, arrays)
    if mask is None:
        query, key, value = map(torch.tensor, arrays)
        theirs = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal, enable_gqa=True)
        np.testing.assert_allclose(ours(*map(wy.Constant, arrays)).forward(), theirs.numpy(), rtol=1e-9)


def test_a_query_without_keys_gets_zeros_and_no_gradient() -> None:
    q, k, v = (wy.Parameter(normal(*shape)) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))
    for mask in (np.zeros((3, 5), bool), np.full((3, 5), -np.inf)):
        result: Any = wy.scaled_dot_product_attention(q, k, v, mask)
        gradients = wy.grad(result.sum(), [q, k, v])
        for node in (result, *gradients):
            assert not node.forward().any()
        for array in wy.compile([result, *gradients])():
            assert not array.any()


def test_a_learned_bias_has_gradients_to_second_order() -> None:
    q, k, v, bias = (wy.Parameter(normal(*shape)) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6), (3, 5)))
    check_grads(wy.scaled_dot_product_attention(q, k, v, bias, scale=0.3))


def test_vmap_and_open_axes() -> None:
    q, k, v = normal(3, 2, 4, 5), normal(3, 2, 6, 5), normal(3, 2, 6, 5)
    expected = wy.scaled_dot_product_attention(*map(wy.Constant, (q, k, v))).forward()
    np.testing.assert_allclose(wy.vmap(wy.scaled_dot_product_attention)(q, k, v), expected, rtol=1e-12)
    x: Any = wy.Input(dims=(Batch(), Heads(2), Queries(), Features(5)), dtype=np.float64)
    y: Any = wy.Input(dims=(Batch(), Heads(2), Keys(), Features(5)), dtype=np.float64)
    run = wy.compile(wy.scaled_dot_product_attention(x, y, y))
    for queries, keys in ((4, 6), (3, 2)):
        feed = {x: q[:, :, :queries], y: k[:, :, :keys]}
        shorter = wy.scaled_dot_product_attention(*map(wy.Constant, (feed[x], feed[y], feed[y]))).forward()
        np.testing.assert_allclose(run(feed), shorter, rtol=1e-9)


def test_axes_are_typed() -> None:
    q = wy.Input(np.zeros((2, 4, 3, 7)), dims=(Batch(2), Heads(4), Queries(3), Features(7)))
    k = wy.Input(np.zeros((2, 4, 5, 7)), dims=(Batch(2), Heads(4), Keys(5), Features(7)))
    v = wy.Input(np.zeros((2, 4, 5, 6)), dims=(Batch(2), Heads(4), Keys(5), Columns(6)))
    result = wy.scaled_dot_product_attention(q, k, v)
    assert_type(result, wy.Tensor[Batch, Heads, Queries, Columns])
    assert result.dims == (Batch(2), Heads(4), Queries(3), Columns(6))
    shared = wy.Input(np.zeros((2, 2, 5, 7)), dims=(Batch(2), Groups(2), Keys(5), Features(7)))
    grouped = wy.scaled_dot_product_attention(q, shared, shared)
    assert_type(grouped, wy.Tensor[Batch, Heads, Queries, Features])
    assert grouped.dims == (Batch(2), Heads(4), Queries(3), Features(7))


def test_wrong_operands_are_errors() -> None:
    q = wy.Constant(np.zeros((2, 4, 3, 7)))
    with pytest.raises(ShapeError, match="no multiple"):
        wy.scaled_dot_product_attention(q, wy.Constant(np.zeros((2, 3, 5, 7))), wy.Constant(np.zeros((2, 3, 5, 7))))
    for key, value in (((2, 4, 5, 6), (2, 4, 5, 6)), ((2, 4, 5, 7), (2, 4, 6, 7)), ((3, 4, 5, 7), (3, 4, 5, 7))):
        with pytest.raises(ShapeError, match="do not match"):
            wy.scaled_dot_product_attention(q, wy.Constant(np.zeros(key)), wy.Constant(np.zeros(value)))
    with pytest.raises(ShapeError, match="same number of axes"):
        wy.scaled_dot_product_attention(q, q, wy.Constant(np.zeros((3, 7))))
    with pytest.raises(DTypeError):
        wy.scaled_dot_product_attention(q, q.astype(np.float32), q)


def their_layer(layer: wy.nn.MultiHeadAttention[Any]) -> Any:
    """PyTorch's layer with the same parameters."""
    size = layer.out_proj.weight.shape[0]
    other = torch.nn.MultiheadAttention(size, layer.num_heads, batch_first=True, dtype=torch.float64)
    assert layer.qkv.bias is not None and layer.out_proj.bias is not None
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.tensor(layer.qkv.weight.value.T.copy()))
        other.in_proj_bias.copy_(torch.tensor(layer.qkv.bias.value))
        other.out_proj.weight.copy_(torch.tensor(layer.out_proj.weight.value.T.copy()))
        other.out_proj.bias.copy_(torch.tensor(layer.out_proj.bias.value))
    return other


def random_layer(**options: Any) -> wy.nn.MultiHeadAttention[Any]:
    wy.nn.seed(3)
    layer: Any = wy.nn.MultiHeadAttention(
        8, 4, causal=False, initializer=wy.nn.initializers.Normal(0.5), dtype=np.float64, **options
    )
    layer.qkv.bias.set(RANDOM.normal(size=layer.qkv.bias.shape))
    layer.out_proj.bias.set(RANDOM.normal(size=8))
    result: wy.nn.MultiHeadAttention[Any] = layer
    return result


KEY_MASK = np.array([[True, True, False, True, False], [True, False, True, True, True]])


@pytest.mark.parametrize("with_value", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_layer_is_pytorchs_for_another_sequence(with_value: bool, masked: bool) -> None:
    layer, attends = random_layer(), RANDOM.random((2, 3, 5)) < 0.8
    attends[:, :, 0] = True
    other = their_layer(layer)
    arrays = [normal(2, 3, 8), normal(2, 5, 8), *([normal(2, 5, 8)] if with_value else [])]

    def ours(x: Any, key: Any, value: Any = None) -> Any:
        if not masked:
            return layer(x, key=key, value=value)
        return layer(x, attends, key=key, value=value, key_mask=KEY_MASK)

    def theirs(x: Any, key: Any, value: Any = None) -> Any:
        masks: Any = {}
        if masked:
            masks = {
                "attn_mask": torch.tensor(~attends).repeat_interleave(4, dim=0),
                "key_padding_mask": torch.tensor(~KEY_MASK),
            }
        return other(x, key, key if value is None else value, need_weights=False, **masks)[0]

    check_against_torch(ours, theirs, arrays, second_order=False)


def test_the_layer_has_gradients_to_second_order_for_another_sequence() -> None:
    layer = random_layer(num_key_value_heads=2)
    x, key = wy.Parameter(normal(2, 2, 8)), wy.Parameter(normal(2, 3, 8))
    check_grads(layer(x, key=key, key_mask=KEY_MASK[:, :3]), [x, key])


def test_key_masks_of_self_attention_are_pytorchs() -> None:
    layer = random_layer()
    x = normal(2, 5, 8)
    expected = their_layer(layer)(*[torch.tensor(x)] * 3, key_padding_mask=torch.tensor(~KEY_MASK), need_weights=False)[
        0
    ].detach()
    np.testing.assert_allclose(layer(wy.Constant(x), key_mask=KEY_MASK).forward(), expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"rotary": True}, {"alibi": True}])
def test_grouped_queries_are_full_heads_with_repeated_keys_and_values(options: Any) -> None:
    few, full = random_layer(num_key_value_heads=2, **options), random_layer(**options)

    def repeated(x: Any) -> Any:
        """Each of the two heads of two features twice."""
        return np.repeat(x.reshape(-1, 2, 2), 2, axis=1).reshape(-1, 8)

    parts = few.qkv.weight.value, few.qkv.bias.value[None]  # type: ignore[union-attr]  # the layer has a bias
    weight, bias = (
        np.concatenate([part[:, :8], repeated(part[:, 8:12]), repeated(part[:, 12:])], axis=1) for part in parts
    )
    full.qkv.weight.set(weight)
    full.qkv.bias.set(bias[0])  # type: ignore[union-attr]  # as above
    full.out_proj.weight.set(few.out_proj.weight.value)
    full.out_proj.bias.set(few.out_proj.bias.value)  # type: ignore[union-attr]  # as above
    x, memory = wy.Constant(normal(2, 3, 8)), wy.Constant(normal(2, 5, 8))
    np.testing.assert_allclose(few(x).forward(), full(x).forward(), rtol=1e-9)
    if not options:
        np.testing.assert_allclose(few(x, key=memory).forward(), full(x, key=memory).forward(), rtol=1e-9)


def test_dropout_of_another_sequences_weights() -> None:
    layer = wy.nn.MultiHeadAttention(8, 2, causal=False, dropout=0.5)
    x, memory = wy.Constant(np.ones((2, 3, 8), np.float32)), wy.Constant(np.ones((2, 5, 8), np.float32))
    trained = layer(x, key=memory)
    wy.random.set_step(0)
    value = trained.forward()
    wy.random.set_step(0)
    # An element is a sum whose terms nearly cancel: it is as exact as a float32 of the size of the others.
    rounding = float(np.finfo(np.float32).eps * np.abs(value).max())
    np.testing.assert_allclose(wy.compile([trained, trained.sum()])()[0], value, rtol=1e-5, atol=rounding)
    assert not np.allclose(layer.eval()(x, key=memory).forward(), value)


def test_wrong_uses_of_the_layer_are_errors() -> None:
    x = wy.Constant(np.zeros((2, 3, 8), np.float32))
    with pytest.raises(ValueError, match="causal=False"):
        wy.nn.MultiHeadAttention(8, 2)(x, key=x)
    with pytest.raises(ShapeError, match="num_key_value_heads 3"):
        wy.nn.MultiHeadAttention(8, 4, num_key_value_heads=3)
    with pytest.raises(ShapeError, match="key_mask"):
        wy.nn.MultiHeadAttention(8, 2)(x, key_mask=np.ones(3, bool))
    with pytest.raises(ValueError, match="value needs a key"):
        wy.nn.MultiHeadAttention(8, 2)(x, value=x)  # type: ignore[call-overload]  # the mistake
