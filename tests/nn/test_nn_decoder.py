"""The decoder against a plain loop in NumPy; its options, errors, training and generation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.nn import Decoder, DecoderConfig

SIZES: dict[str, Any] = {
    "vocab_size": 29, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 24,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}  # fmt: skip
CONFIGS: dict[str, DecoderConfig] = {
    "plain": DecoderConfig(**SIZES),
    "grouped": DecoderConfig(**SIZES, num_key_value_heads=2, head_dim=6, tie_word_embeddings=True),
    "windowed": DecoderConfig(**SIZES, num_key_value_heads=1, sliding_window=5, rope_theta=300.0),
    "biased": DecoderConfig(**SIZES, attention_bias=True, attention_output_bias=False, mlp_bias=True),
    "scaled": DecoderConfig(**SIZES, rope_scaling=LLAMA3, qk_norm=True),
    "centered": DecoderConfig(
        **SIZES, num_key_value_heads=2, zero_centered_norms=True, embedding_scale=4.0, hidden_act="gelu_pytorch_tanh",
        tie_word_embeddings=True,
    ),
}  # fmt: skip
TEXTS = np.random.default_rng(0).integers(0, 29, (2, 20))


def made(name: str, **options: Any) -> Decoder:
    wy.nn.seed(1)
    model = Decoder(CONFIGS[name], **{"dtype": np.float64, **options})
    for parameter in model.parameters():  # far from the small first values
        parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.3)
    return model


def frequencies(config: DecoderConfig) -> Any:
    """The frequencies of rotations, by the loop of Llama 3."""
    size = config.features_of_head
    found = [config.rope_theta ** (-2 * i / size) for i in range(size // 2)]
    if config.rope_scaling is None:
        return np.array(found)
    scaled = []
    for each in found:
        wavelength = 2.0 * np.pi / each
        if wavelength < 8 / 4.0:
            scaled.append(each)
        elif wavelength > 8 / 1.0:
            scaled.append(each / 8.0)
        else:
            smooth = (8 / wavelength - 1.0) / (4.0 - 1.0)
            scaled.append((1.0 - smooth) * each / 8.0 + smooth * each)
    return np.array(scaled)


def plain_logits(model: Decoder, tokens: Any) -> Any:
    """The logits of one text, position by position and head by head."""
    config, state = model.config, model.state_dict()
    size, group = config.features_of_head, config.num_attention_heads // config.heads_of_keys
    one = 1.0 if config.zero_centered_norms else 0.0

    def norm(x: Any, name: str) -> Any:
        offset = one if "query" not in name and "key" not in name else 0.0
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config.rms_norm_eps) * (state[f"{name}.weight"] + offset)

    def linear(x: Any, name: str) -> Any:
        return x @ state[f"{name}.weight"] + state.get(f"{name}.bias", 0.0)

    def turned(x: Any) -> Any:
        angles = np.arange(len(x))[:, None] * frequencies(config)
        first, second = x[:, : size // 2], x[:, size // 2 :]
        cosine, sine = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=1)

    def activation(x: Any) -> Any:
        if config.hidden_act == "silu":
            return x / (1.0 + np.exp(-x))
        return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))

    x = state["tokens.weight"][tokens] * config.embedding_scale
    for block in range(config.num_hidden_layers):
        own = f"blocks.{block}"
        qkv = linear(norm(x, f"{own}.attention_norm"), f"{own}.attention.qkv")
        heads = [qkv[:, i * size : (i + 1) * size] for i in range(qkv.shape[1] // size)]
        count, shared = config.num_attention_heads, config.heads_of_keys
        queries, keys, values = heads[:count], heads[count : count + shared], heads[count + shared :]
        if config.qk_norm:
            queries = [norm(each, f"{own}.attention.query_norm") for each in queries]
            keys = [norm(each, f"{own}.attention.key_norm") for each in keys]
        found = []
        for i, query in enumerate(map(turned, queries)):
            scores = query @ turned(keys[i // group]).T / np.sqrt(size)
            behind = np.arange(len(x))[:, None] - np.arange(len(x))
            scores[(behind < 0) | (behind >= (config.sliding_window or 1000))] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            found.append(weights / weights.sum(-1, keepdims=True) @ values[i // group])
        x = x + linear(np.concatenate(found, axis=1), f"{own}.attention.out_proj")
        inner, feed = norm(x, f"{own}.feed_forward_norm"), f"{own}.feed_forward"
        hidden = activation(linear(inner, f"{feed}.gate")) * linear(inner, f"{feed}.value")
        x = x + linear(hidden, f"{feed}.output")
    return norm(x, "norm") @ np.array(model.head_weight.value).T


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_a_plain_loop(name: str) -> None:
    model = made(name)
    whole = model.logits(wy.IndexInput(TEXTS)).forward()
    for row, text in zip(whole, TEXTS, strict=True):
        np.testing.assert_allclose(row, plain_logits(model, text), rtol=1e-9, atol=1e-10)
    decoder = wy.nn.CachedDecoder(model, 2)
    decoder.read(TEXTS[:, :13])
    for place in range(13, 20):
        np.testing.assert_allclose(decoder.step(TEXTS[:, place]), whole[:, place], rtol=1e-9, atol=1e-9)


def test_it_learns_natively_and_generates(tmp_path: Any) -> None:
    wy.nn.seed(0)
    model = Decoder(CONFIGS["grouped"])
    text = np.tile(np.arange(21) % 7, (8, 1))
    tokens, targets = (wy.IndexInput(dims=(8, 20), name=name) for name in ("tokens", "targets"))
    program = wy.compile(model.loss(tokens, targets), wy.optim.AdamW(model.parameters(), 1e-2))
    losses = [program({tokens: text[:, :-1], targets: text[:, 1:]}) for _ in range(40)]
    assert losses[0] > 3.0 and losses[-1] < 0.2
    assert list(wy.nn.generate(model, [0, 1, 2], 40, temperature=0.0))[:8] == [3, 4, 5, 6, 0, 1, 2, 3]
    model.save(tmp_path / "model.safetensors")
    again = Decoder(CONFIGS["grouped"])
    again.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.tokens.weight.value, model.tokens.weight.value)


def test_recomputed_blocks_have_the_same_gradients() -> None:
    losses = []
    for checkpoint in (False, True):
        model = made("biased", checkpoint=checkpoint)
        loss = model.loss(wy.IndexInput(TEXTS[:, :-1]), wy.IndexInput(TEXTS[:, 1:]))
        loss.backward()
        losses.append((float(loss.forward()), [np.asarray(each.gradient) for each in model.parameters()]))
    assert losses[0][0] == losses[1][0]
    for one, other in zip(losses[0][1], losses[1][1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_axes_have_the_names_of_gpt2s() -> None:
    from wyrm.nn.gpt2_axes import Embed, Heads, Inner, Vocabulary

    model = made("grouped")
    block = model.blocks[0]
    assert model.tokens.weight.dims == (Vocabulary(29), Embed(16))
    assert block.feed_forward.gate.weight.dims == (Embed(16), Inner(20))
    assert block.attention.out_proj.weight.dims == (wy.Times((Heads(4), 6)), Embed(16))
    assert model.head is None and made("plain").head_weight.dims == (Vocabulary(29), Embed(16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_size": 18}, "hidden_size 18 is not divisible by num_attention_heads 4; give head_dim"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is not divisible by num_key_value_heads 3"),
        ({"head_dim": 5}, "rotations need an even head_dim, not 5"),
        ({"num_hidden_layers": 0}, "DecoderConfig: num_hidden_layers must be an integer of at least 1"),
        ({"num_hidden_layers": 2.5}, "DecoderConfig: num_hidden_layers must be an integer"),
        ({"hidden_act": "relu"}, "hidden_act must be one of 'silu', 'gelu', 'gelu_pytorch_tanh', not 'relu'"),
        ({"rms_norm_eps": 0.0}, r"rms_norm_eps must be a number in \[1e-30, 1\], not 0.0"),
        ({"attention_dropout": 1.0}, r"attention_dropout must be a number in \[0, 1\), not 1.0"),
        ({"rope_theta": -1.0}, "rope_theta must be a number above 0, not -1.0"),
        ({"mlp_bias": 1}, "mlp_bias must be True or False, not 1"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn'; it must be one of linear, llama3"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "lacks low_freq_factor, high_freq_factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "beta": 1}}, "has beta; it has factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.0}}, "factor must be above 0, not 0.0"),
        ({"rope_scaling": {"rope_type": "linear", "factor": "2"}}, "factor must be a number, not '2'"),
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "low_freq_factor must be below high_freq_factor"),
        ({"rope_scaling": 2.0}, "rope_scaling must be a dict"),
    ],
)
def test_options_that_no_decoder_has(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecoderConfig(**(SIZES | options))


def test_what_a_decoder_takes() -> None:
    model = made("plain")
    with pytest.raises(ShapeError, match="a sequence of 25 tokens is longer than max_position_embeddings, 24"):
        model(wy.IndexInput(dims=(1, 25)))
    with pytest.raises(ShapeError, match=r"Decoder takes tokens of the axes \(batch, time\)"):
        model(wy.IndexInput(dims=(5,)))  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(ShapeError, match="needs a size"):
        model(wy.IndexInput(dims=(1, wy.Dim())))
    with pytest.raises(DTypeError, match="Decoder takes a configuration"):
        Decoder(SIZES)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(ShapeError, match="the cache holds 24 tokens of max_position_embeddings, 24"):
        decoder = wy.nn.CachedDecoder(model)
        decoder.read(TEXTS[:1, :12])
        decoder.read(TEXTS[:1, :12])
        decoder.step(np.array([1]))


def test_rotations_refuse_what_they_cannot_turn() -> None:
    rotary = wy.nn.RotaryEmbedding()
    with pytest.raises(ShapeError, match="needs an even size"):
        rotary(wy.Input(dims=(1, 2, 3, 5)))
    with pytest.raises(ShapeError, match=r"RotaryEmbedding takes the axes \(batch, time, heads, features\)"):
        rotary(wy.Input(dims=(1, 2, 4)))
    with pytest.raises(OptionError, match="theta must be above 0"):
        wy.nn.RotaryEmbedding(0.0)
    x = np.random.default_rng(0).normal(size=(1, 9, 2, 6))
    late = rotary(wy.Constant(x[:, 4:]), wy.IndexConstant(np.arange(4, 9)))
    np.testing.assert_allclose(late.forward(), rotary(wy.Constant(x)).forward()[:, 4:], rtol=1e-12)
