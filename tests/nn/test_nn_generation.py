"""Text token by token: the cached reader equals the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.nn.generation import Reader, generate

CONFIG = wy.nn.GPT2Config(vocabulary=11, context=8, layers=2, heads=2, width=8, dropout=0.1)


def model(**options: Any) -> wy.nn.GPT2:
    wy.nn.seed(1)
    made = wy.nn.GPT2(CONFIG, **options)
    for parameter in made.parameters():  # far from the small first values
        parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.3)
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_cached_reader_equals_the_model(dtype: Any) -> None:
    made = model(dtype=dtype)
    texts = np.random.default_rng(0).integers(0, 11, (3, 8))
    made.eval()
    whole = made.logits(wy.IndexInput(texts)).forward()
    reader = Reader(made, batch=3)
    for _ in range(2):
        for place in range(8):
            found = reader.read(texts[:, place])
            np.testing.assert_allclose(found, whole[:, place], rtol=1e-5, atol=1e-5 if dtype is np.float32 else 1e-12)
        with pytest.raises(ShapeError, match=r"the context of 8 tokens is full"):
            reader.read(texts[:, 0])
        reader.forget()


def test_a_seed_gives_the_same_text_and_goes_beyond_the_context() -> None:
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
    made.tokens.table.set(-made.tokens.table.value)
    changed = list(generate(made, [1], 6, seed=1))
    assert changed != alone[0]
    made.tokens = wy.nn.Embedding(11, 8)
    assert list(generate(made, [1], 6, seed=1)) != changed


def test_prompts_that_do_not_fit() -> None:
    made = model()
    with pytest.raises(ShapeError, match=r"1 to 8 tokens, the context of the model, not 0"):
        generate(made, [], 1)
    with pytest.raises(ShapeError, match=r"not 9"):
        generate(made, [1] * 9, 1)
    with pytest.raises(ValueError, match="top_k"):
        generate(made, [1], 1, top_k=0)
    with pytest.raises(IndexOutOfRange, match=r"token 11 at place 1 of the prompt"):
        generate(made, [1, 11], 1)
