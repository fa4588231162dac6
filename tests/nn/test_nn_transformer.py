"""Positions, attention layers, feed-forward layers and blocks, against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def test_a_block_is_that_of_torch() -> None:
    block = wy.nn.TransformerBlock(8, 20, 2, dtype=np.float64)
    for parameter in block.parameters():
        parameter.set(drawn(*parameter.shape) * 0.5)
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 20, dropout=0.0, activation=lambda x: torch.nn.functional.gelu(x, approximate="tanh"), batch_first=True,
        norm_first=True, dtype=torch.float64,
    )  # fmt: skip
    pairs = {
        "self_attn.in_proj_weight": block.attention.qkv.weight.value.T,
        "self_attn.in_proj_bias": block.attention.qkv.bias.value,  # type: ignore[union-attr]  # there is one
        "self_attn.out_proj.weight": block.attention.out_proj.weight.value.T,
        "self_attn.out_proj.bias": block.attention.out_proj.bias.value,  # type: ignore[union-attr]  # as above
        "linear1.weight": block.feed_forward.fc1.weight.value.T,
        "linear1.bias": block.feed_forward.fc1.bias.value,  # type: ignore[union-attr]  # as above
        "linear2.weight": block.feed_forward.fc2.weight.value.T,
        "linear2.bias": block.feed_forward.fc2.bias.value,  # type: ignore[union-attr]  # as above
        "norm1.weight": block.attention_norm.weight.value,
        "norm1.bias": block.attention_norm.bias.value,  # type: ignore[union-attr]  # as above
        "norm2.weight": block.feed_forward_norm.weight.value,
        "norm2.bias": block.feed_forward_norm.bias.value,  # type: ignore[union-attr]  # as above
    }  # fmt: skip
    theirs.load_state_dict({name: torch.tensor(np.array(value)) for name, value in pairs.items()})
    data = drawn(3, 5, 8)
    x, leaf = wy.Parameter(data), torch.tensor(data).requires_grad_()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    result = theirs(leaf, src_mask=mask, is_causal=True)
    result.square().sum().backward()
    mine: Any = block(x)
    np.testing.assert_allclose(mine.forward(), result.detach().numpy(), rtol=1e-9, atol=1e-12)
    (gradient,) = wy.grad(mine.square().sum(), [x])
    assert leaf.grad is not None
    np.testing.assert_allclose(gradient.forward(), leaf.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_axes_stay_and_a_wrong_one_is_an_error() -> None:
    layer = wy.nn.MultiHeadAttention(Width(8), 2)
    x = wy.Input(dims=(Batch(), Time(4), Width(8)))
    assert layer(x).dims == x.dims
    assert wy.nn.TransformerBlock(Width(8), 16, 2)(x).dims == x.dims
    with pytest.raises(ShapeError, match="embed_dim 8 is not divisible by num_heads 3"):
        wy.nn.MultiHeadAttention(8, 3)
    with pytest.raises(ShapeError, match=r"takes the axes \(batch, time, embed_dim\)"):
        layer(wy.Input(dims=(4, Width(8))))  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\)"):
        wy.nn.TransformerBlock(8, 16, 2, dropout=1.0)


def test_dropout_is_there_in_training_alone() -> None:
    block, x = wy.nn.TransformerBlock(8, 16, 2, dropout=0.5), wy.Input(drawn(1, 3, 8).astype(np.float32))
    training = block(x)
    assert not np.array_equal(training.forward(), training.forward())
    block.eval()
    still = block(x)
    np.testing.assert_array_equal(still.forward(), still.forward())


def test_a_rotation_makes_scores_depend_on_the_distance() -> None:
    one = np.tile(drawn(1, 1, 3, 1, 6), (1, 9, 1, 1, 1))
    turned = wy.nn.rotary_embedding(wy.Constant(one)).forward()
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(one, axis=-1), rtol=1e-12)
    np.testing.assert_array_equal(turned[:, :, 2], one[:, :, 2])
    scores = turned[0, :, 0, 0] @ turned[0, :, 1, 0].T
    for distance in range(9):
        diagonal = np.diagonal(scores, -distance)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-10)
    layer = wy.nn.MultiHeadAttention(8, 2, rotary=True)
    assert layer(wy.Input(dims=(2, 3, 8))).shape == (2, 3, 8)
    with pytest.raises(ShapeError, match="an even size"):
        wy.nn.rotary_embedding(wy.Constant(drawn(1, 2, 3, 1, 5)))


def test_positions_are_added() -> None:
    x = wy.Constant(np.zeros((2, 3, 4), np.float32))
    learned = wy.nn.LearnedPositionalEncoding(5, 4)
    np.testing.assert_array_equal(learned(x).forward()[1], learned.weight.value[:3])
    with pytest.raises(ShapeError, match="6 positions, more than num_positions, 5"):
        learned(wy.Input(dims=(2, 6, 4)))
    with pytest.raises(ShapeError, match="needs a size"):
        learned(wy.Input(dims=(2, Time(), 4)))
    waves = wy.nn.SinusoidalPositionalEncoding()(x).forward()
    np.testing.assert_allclose(waves[0, 2], [np.sin(2), np.sin(0.02), np.cos(2), np.cos(0.02)], rtol=1e-6)
    with pytest.raises(ShapeError, match="an even size"):
        wy.nn.SinusoidalPositionalEncoding()(wy.Constant(np.zeros((2, 3))))


@pytest.mark.parametrize("name", ["resid_pdrop", "embd_pdrop", "attn_pdrop"])
def test_each_dropout_of_gpt2_has_its_own_rate(name: str) -> None:
    none = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    sizes = {"vocab_size": 10, "n_positions": 4, "n_embd": 8, "n_layer": 1, "n_head": 2}
    tokens, found = wy.IndexInput(np.array([[1, 2, 3, 4]])), []
    for rates in (none, none | {name: 0.5}):
        wy.nn.seed(0)
        config = wy.nn.GPT2Config(**sizes, **rates)  # type: ignore[arg-type]  # floats all of them
        found.append(wy.nn.GPT2(config)(tokens).forward())
    assert not np.allclose(found[0], found[1])


def test_gpt2_says_what_it_cannot_do() -> None:
    config = wy.nn.GPT2Config(vocab_size=10, n_positions=4, n_embd=8, n_layer=1, n_head=2)
    model = wy.nn.GPT2(config)
    with pytest.raises(ShapeError, match="a sequence of 5 tokens is longer than n_positions, 4"):
        model(wy.IndexInput(dims=(2, 5)))
    with pytest.raises(ShapeError, match="needs a size"):
        model(wy.IndexInput(dims=(2, Time())))
    with pytest.raises(wy.WyrmError, match="10"):
        model.loss(wy.IndexInput(np.array([[1, 10]])), wy.IndexInput(np.array([[1, 2]])))
    for name, value in {"n_head": 3, "attn_pdrop": 1.0, "resid_pdrop": -0.1, "n_layer": 0, "n_embd": 2.5}.items():
        with pytest.raises(ValueError, match=f"GPT2Config.*{name}"):
            replace(config, **{name: value})  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize("tied", [True, False])
def test_a_gpt2_learns_by_heart_with_and_without_threads(tied: bool) -> None:
    wy.nn.seed(0)
    config = wy.nn.GPT2Config(vocab_size=16, n_positions=8, n_embd=16, n_layer=2, n_head=2, tie_word_embeddings=tied)
    model, batch = wy.nn.GPT2(config), Batch()
    tokens, targets = (wy.IndexInput(dims=(batch, 8), name=name) for name in ("tokens", "targets"))
    loss = model.loss(tokens, targets)
    program = wy.compile(loss, wy.optim.AdamW(model.parameters(), 0.01), loop="python")
    text = np.random.default_rng(0).integers(0, 16, (8, 9))
    columns = {tokens: text[:, :-1], targets: text[:, 1:]}
    losses = [program.epoch(columns, batch_size=8, threads=2, mode="synchronized") for _ in range(60)]
    losses += [program.epoch(columns, batch_size=4, shuffle=True) for _ in range(20)]
    assert losses[0] > 2.5 > 1.0 > losses[-1]


def rotated(array: Any, heads: int, here: Any, there: Any) -> Any:
    """Return queries, (batch, time, heads, features), with the features of a head in the order of another layout."""
    rows = np.moveaxis(array, (2, 3), (0, 1))
    found = wy.nn.RotaryWeights(rows.reshape(-1, *rows.shape[2:]), heads, here).to(there)
    assert found.layout is there and found.heads == heads
    return np.moveaxis(found.array.reshape(rows.shape), (0, 1), (2, 3))


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_rotations_of_pairs_are_those_of_halves_in_another_order(engine: Any) -> None:
    x = drawn(2, 5, 3, 8)
    pairs, halves = wy.nn.RotaryEmbedding(50.0, layout=wy.nn.Pair), wy.nn.RotaryEmbedding(50.0)
    expected = halves(wy.Constant(x)).forward()
    given = wy.Parameter(rotated(x, 3, wy.nn.Half, wy.nn.Pair))
    found = wy.compile(pairs(given), engine=engine)()
    tolerance = 1e-12 if engine == "native" else 1e-5  # JAX computes in float32
    np.testing.assert_allclose(rotated(np.asarray(found), 3, wy.nn.Pair, wy.nn.Half), expected, tolerance, tolerance)
    angle = np.arange(5)[:, None] * 50.0 ** (-np.arange(4) / 4)  # as complex numbers, which are pairs
    turned = given.value.view(np.complex128) * np.exp(1j * angle)[:, None]
    np.testing.assert_allclose(pairs(given).forward(), turned.view(np.float64), rtol=1e-12, atol=1e-12)
    check_grads(pairs(given))


def test_a_layer_of_pairs_takes_permuted_weights() -> None:
    wy.nn.seed(2)
    halves = wy.nn.MultiHeadAttention(8, 4, num_key_value_heads=2, rotary=True, dtype=np.float64)
    rotary = wy.nn.RotaryEmbedding(layout=wy.nn.Pair)
    pairs = wy.nn.MultiHeadAttention(8, 4, num_key_value_heads=2, rotary=rotary, dtype=np.float64)
    q, k, v = np.split(halves.qkv.weight.value.T, [8, 12])
    moved = [wy.nn.RotaryWeights(part, heads, wy.nn.Half).to(wy.nn.Pair) for part, heads in ((q, 4), (k, 2))]
    pairs.qkv.weight.set(np.concatenate([*map(rotary.array_of, moved), v]).T)
    pairs.out_proj.weight.set(halves.out_proj.weight.value)
    x = wy.Constant(drawn(2, 6, 8))
    np.testing.assert_allclose(pairs(x).forward(), halves(x).forward(), rtol=1e-12)


def test_weights_of_another_layout_are_refused_with_what_permutes_them() -> None:
    weights = wy.nn.RotaryWeights(drawn(24, 5), 3, wy.nn.Pair)
    rotary = wy.nn.RotaryEmbedding()
    refusal = r"turns halves, features i and i \+ features / 2, and these weights of 3 heads of 8 features have pairs"
    with pytest.raises(OptionError, match=refusal + r".*: permute them by weights\.to\(wy\.nn\.Half\)"):
        rotary.array_of(weights)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(DTypeError, match="takes weights that say their layout"):
        rotary.array_of(weights.array)  # type: ignore[arg-type]  # as above
    np.testing.assert_array_equal(weights.to(wy.nn.Half).to(wy.nn.Pair).array, weights.array)
    assert weights.to(wy.nn.Pair).array is weights.array
    for heads in (5, 8):
        with pytest.raises(ShapeError, match=f"does not divide into {heads} heads of an even number of features"):
            wy.nn.RotaryWeights(weights.array, heads, wy.nn.Pair)
    with pytest.raises(OptionError, match=r"layout must be wy\.nn\.Half or wy\.nn\.Pair, not 'pair'"):
        wy.nn.RotaryEmbedding(layout="pair")  # type: ignore[call-overload]  # as above
