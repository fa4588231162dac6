"""Generation token by token: the cached decoder equals the model."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.products.target import rounding_host
from wyrm.errors import DTypeError, IndexOutOfRange, OptionError, ShapeError
from wyrm.nn import CachedDecoder, generate
from wyrm.nn.cached_decoder import DecoderPass

CONFIG = wy.nn.GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2)


def model(**options: Any) -> wy.nn.GPT2:
    wy.nn.seed(1)
    made = wy.nn.GPT2(CONFIG, **options)
    for parameter in made.parameters():  # far from the small first values
        parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.3)
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_cached_decoder_equals_the_model(dtype: Any) -> None:
    made = model(dtype=dtype)
    texts = np.random.default_rng(0).integers(0, 11, (3, 8))
    made.eval()
    whole = made.logits(wy.IndexInput(texts)).forward()
    decoder = CachedDecoder(made, batch_size=3)
    for _ in range(2):
        for place in range(8):
            found = decoder.step(texts[:, place])
            np.testing.assert_allclose(found, whole[:, place], rtol=1e-5, atol=1e-5 if dtype is np.float32 else 1e-12)
        with pytest.raises(ShapeError, match=r"the cache holds 8 tokens of n_positions, 8, and has no room for 1 more"):
            decoder.step(texts[:, 0])
        decoder.reset()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("parts", [[1], [2, 1], [19, 20], [39], [12, 1, 26]])
def test_tokens_that_are_read_at_once_count_as_one_by_one(parts: list[int], dtype: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("wyrm.nn.cached_decoder.PASS", 16)
    wy.nn.seed(3)
    made = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=11, n_positions=40, n_embd=8, n_layer=2, n_head=2), dtype=dtype)
    for parameter in made.parameters():
        parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.3)
    texts, place = np.random.default_rng(0).integers(0, 11, (3, 40)), 0
    made.eval()
    whole = made.logits(wy.IndexInput(texts)).forward()
    decoder = CachedDecoder(made, batch_size=3)
    for part in parts:
        decoder.read(texts[:, place : place + part])
        place += part
    assert decoder.length == place
    found = decoder.step(texts[:, place])
    np.testing.assert_allclose(found, whole[:, place], rtol=1e-5, atol=1e-5 if dtype is np.float32 else 1e-12)


def test_what_does_not_fit_is_not_read() -> None:
    decoder = CachedDecoder(model(), batch_size=2)
    decoder.read(np.ones((2, 5), np.int64))
    with pytest.raises(ShapeError, match=r"holds 5 tokens of n_positions, 8, and has no room for 4 more"):
        decoder.read(np.ones((2, 4), np.int64))
    with pytest.raises(ShapeError, match=r"CachedDecoder.read takes tokens of the shape \(batch_size, time\)"):
        decoder.read(np.ones(2, np.int64))
    with pytest.raises(IndexOutOfRange, match=r"a token is 11; it must be in 0\.\.10"):
        decoder.read(np.array([[1, 2], [3, 11]]))
    with pytest.raises(DTypeError, match=r"CachedDecoder.step takes the numbers of tokens, not float64"):
        decoder.step(cast(Any, np.ones(2)))
    assert decoder.length == 5


def test_what_is_no_language_model_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"generate takes a model with a method logits\(tokens, past.*, not Linear"):
        generate(cast(Any, wy.nn.Linear(3, 3)), [1], 1)
    with pytest.raises(DTypeError, match=r"not the class GPT2; make one of it first"):
        CachedDecoder(cast(Any, wy.nn.GPT2))


def test_a_seed_gives_the_same_text_and_goes_beyond_n_positions() -> None:
    made = model()
    texts = [list(generate(made, [1, 2, 3], 20, seed=seed, temperature=2.0)) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) == 20 and set(texts[0]) <= set(range(11))


def test_greedy_text_is_that_of_the_model() -> None:
    made, text = model(), [3, 1]
    for token in generate(made, [3, 1], 6, temperature=0.0):
        made.eval()
        assert token == made.logits(wy.IndexInput(np.array([text]))).forward()[0, -1].argmax()
        text.append(token)


def test_texts_side_by_side_do_not_mix_and_new_parameters_count() -> None:
    made = model()
    alone = [list(generate(made, [prompt], 6, seed=prompt)) for prompt in (1, 2)]
    first, second = (generate(made, [prompt], 6, seed=prompt) for prompt in (1, 2))
    assert [list(pair) for pair in zip(*zip(first, second, strict=True), strict=True)] == alone
    made.tokens.weight.set(-made.tokens.weight.value)
    changed = list(generate(made, [1], 6, seed=1))
    assert changed != alone[0]
    made.tokens = wy.nn.Embedding(11, 8)
    assert list(generate(made, [1], 6, seed=1)) != changed


def test_prompts_that_do_not_fit() -> None:
    made = model()
    with pytest.raises(ShapeError, match=r"the prompt has 0 tokens; expected 1 to 8, n_positions"):
        generate(made, [], 1)
    with pytest.raises(ShapeError, match=r"has 9 tokens"):
        generate(made, [1] * 9, 1)
    with pytest.raises(ValueError, match="top_k"):
        generate(made, [1], 1, top_k=0)
    with pytest.raises(IndexOutOfRange, match=r"prompt\[1\] is 11; a token must be in 0\.\.10"):
        generate(made, [1, 11], 1)


def test_prompts_of_several_texts_take_their_last_step_together(monkeypatch: pytest.MonkeyPatch) -> None:
    wy.nn.seed(3)
    made = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=11, n_positions=20, n_embd=8, n_layer=1, n_head=2))
    decoder, random = CachedDecoder(made, batch_size=3), np.random.default_rng(0)
    texts: Any = [random.integers(0, 11, length) for length in (14, 15, 13)]
    taken: list[tuple[int, ...]] = []
    run = DecoderPass.run

    def noted(self: Any, tokens: Any, *rest: Any) -> Any:
        taken.append(tokens.shape)
        return run(self, tokens, *rest)

    monkeypatch.setattr(DecoderPass, "run", noted)
    found = decoder.logits_after(texts)
    assert taken == [(1, 13), (1, 14), (1, 12), (3, 1)]
    for text, logits in zip(texts, found, strict=True):
        np.testing.assert_allclose(logits, CachedDecoder(made).logits_after([text])[0], 1e-5, 1e-6)


def test_products_of_a_decoder_in_bfloat16() -> None:
    wy.nn.seed(0)
    made = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=300, n_positions=48, n_embd=64, n_layer=2, n_head=2))
    text = np.random.default_rng(0).integers(0, 300, 40)
    exact, rounded = (
        CachedDecoder(made, compute_dtype=dtype).logits_after([text]) for dtype in ("float32", "bfloat16")
    )
    assert np.abs(exact - rounded).max() < 2**-6 * np.abs(exact).max()
    # Only some processors multiply such numbers faster.
    assert (exact == rounded).all() == (rounding_host().pairs is None)
    with pytest.raises(OptionError, match="compute_dtype must be 'float32' or 'bfloat16', not 'int8'"):
        CachedDecoder(made, compute_dtype=cast(Any, "int8"))
