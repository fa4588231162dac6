"""Texts of different lengths side by side: each is what it is alone, whichever texts are beside it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import wyrm as wy
from tests.nn.test_nn_past import LONGEST, TEXTS, VOCABULARY, made
from wyrm.errors import IndexOutOfRange, OptionError, ShapeError
from wyrm.nn import CachedDecoder, generate

KINDS = ["attention", "grouped", "windowed", "LSTM", "GRU"]
PROMPTS = [np.random.default_rng(i).integers(0, VOCABULARY, 1 + 5 * i % 14).tolist() for i in range(11)]


@pytest.mark.parametrize("kind", [*KINDS, "GPT2"])
def test_texts_are_those_of_one_after_the_other(kind: str) -> None:
    if kind == "GPT2":
        wy.nn.seed(0)
        model: Any = wy.nn.GPT2(wy.nn.GPT2Config(VOCABULARY, LONGEST, n_embd=8, n_layer=2, n_head=2))
        for parameter in model.parameters():
            parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.3)
    else:
        model = made(kind)
    # Longer than the longest sequence, so that texts go on from their second half at different times.
    greedy = [list(text) for text in generate(model, PROMPTS, 30, temperature=0.0)]
    assert greedy == [list(generate(model, prompt, 30, temperature=0.0)) for prompt in PROMPTS]
    options: Any = {"temperature": 1.3, "top_k": 7, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.2}
    sampled = [list(text) for text in generate(model, PROMPTS, 12, seed=5, **options)]
    alone = [list(generate(model, prompt, 12, seed=5 + i, **options)) for i, prompt in enumerate(PROMPTS)]
    assert sampled == alone and len({tuple(text) for text in sampled}) == len(PROMPTS)
    same = [list(text) for text in generate(model, [PROMPTS[3]] * 3, 12)]
    assert len({tuple(text) for text in same}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_different_lengths_equal_the_model(kind: str) -> None:
    model = made(kind)
    whole = model.eval().logits(wy.IndexInput(TEXTS)).forward()
    decoder, lengths = CachedDecoder(model, 3), [9, 1, 4]

    def check(found: np.ndarray, rows: list[int]) -> None:
        for logits, row in zip(found, rows, strict=True):
            lengths[row] = decoder.lengths[row]
            np.testing.assert_allclose(logits, whole[row, lengths[row] - 1], rtol=1e-4, atol=1e-5)

    check(decoder.logits_after([TEXTS[row, : lengths[row]].tolist() for row in range(3)]), [0, 1, 2])
    assert decoder.lengths.tolist() == [9, 1, 4] and decoder.length == 9
    for rows in ([0, 1, 2], [2], [1, 0], [2, 1]):
        check(decoder.step(TEXTS[rows, np.array(lengths)[rows]], rows), rows)
    assert decoder.lengths.tolist() == [11, 4, 7]
    for row, length in enumerate([11, 4, 7]):
        assert decoder.tokens[row].tolist() == TEXTS[row, :length].tolist() + [0] * (11 - length)
    # One goes on by a token, one by several, and one begins anew.
    check(decoder.logits_after([TEXTS[0, :12], TEXTS[1, :9], TEXTS[2, :3]]), [0, 1, 2])
    decoder.read(np.stack([TEXTS[0, 12:15], TEXTS[1, 9:12], TEXTS[2, 3:6]]))
    check(decoder.step(np.array([TEXTS[0, 15], TEXTS[1, 12], TEXTS[2, 6]])), [0, 1, 2])
    model.head.bias.set(model.head.bias.value + 1.0)
    found = decoder.logits_after([TEXTS[0, :17], TEXTS[1, :14]], [0, 1])
    np.testing.assert_allclose(found, whole[[0, 1], [16, 13]] + 1.0, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["windowed", "grouped", "LSTM"])
def test_every_engine_steps_at_the_position_of_each_sequence(kind: str) -> None:
    model = made(kind)
    decoder = CachedDecoder(model, 3)
    decoder.logits_after([TEXTS[0, :9], TEXTS[1, :1], TEXTS[2, :4]])
    step, lengths = decoder._step, decoder.lengths
    given = (TEXTS[[0, 1, 2], lengths][:, None], lengths[:, None], lengths.astype(np.float64))
    feed = {node: value for node, value in zip(step.inputs, given, strict=True) if node in step._leaves}
    whole = model.eval().logits(wy.IndexInput(TEXTS)).forward()[[0, 1, 2], lengths]
    results = [wy.compile(step.outputs[0], engine=engine)(feed) for engine in ("native", "jax")]
    for leaf, value in feed.items():
        cast(Any, leaf).set(value)
    for found in (*results, step.outputs[0].forward()):
        np.testing.assert_allclose(found[:, 0], whole, rtol=1e-4, atol=1e-5)


def test_where_a_text_ends_the_next_one_begins() -> None:
    model = made("grouped")
    alone = [list(generate(model, prompt, 20, seed=i)) for i, prompt in enumerate(PROMPTS)]
    stop = alone[4][3]
    texts = generate(model, PROMPTS, 20, stop=stop)
    wanted = [text[: text.index(stop)] if stop in text else text for text in alone]
    assert [list(text) for text in texts] == wanted
    # Two places for eleven texts, of which some are closed before they end or before they begin.
    decoder = CachedDecoder(model, 2)
    iterators = generate(decoder, PROMPTS, 20)
    assert [next(iterators[0]), next(iterators[10])] == [alone[0][0], alone[10][0]]
    cast(Any, iterators[0]).close()
    assert list(iterators[3]) == alone[3] and list(iterators[0]) == []
    assert [list(text) for text in iterators[1:3]] == alone[1:3]
    assert list(iterators[10]) == alone[10][1:]


def test_a_prefix_is_read_once_for_all_texts(monkeypatch: Any) -> None:
    model, prefix = made("attention"), TEXTS[0, :15].tolist()
    prompts = [[*prefix, token, token] for token in range(6)]
    alone = [list(generate(model, prompt, 5, temperature=0.0)) for prompt in prompts]
    decoder, taken = CachedDecoder(model, 4), list[int]()
    reader: Any = decoder._reader
    for taking in (reader._read, reader._step):

        def run(part: Any, *rest: Any, run: Any = taking.run) -> Any:
            taken.append(part.shape[1])
            return run(part, *rest)

        monkeypatch.setattr(taking, "run", run)
    assert [list(text) for text in generate(decoder, prompts, 5, temperature=0.0)] == alone
    # The last token of each is taken by a step of several.
    assert sum(taken) == len(prompts[0]) - 1 + 5
    # The reader has another text; a sequence still has the prefix.
    reader.logits_after(np.array([[7, 7]]))
    taken.clear()
    assert list(generate(decoder, prompts[2], 5, temperature=0.0)) == alone[2]
    assert taken == []


def test_new_values_of_parameters_count_at_once() -> None:
    model = made("GRU")
    texts = generate(model, PROMPTS[:3], 8, temperature=0.0)
    before = [[next(text), next(text)] for text in texts]
    model.head.weight.set(-model.head.weight.value)
    for prompt, begun, text in zip(PROMPTS, before, texts, strict=False):
        # The others took their second token before the change.
        assert list(text) == list(generate(model, prompt + begun, 6, temperature=0.0))


def test_errors_name_the_prompt_and_the_rows() -> None:
    model = made("attention")
    with pytest.raises(IndexOutOfRange, match=r"prompt\[1\]\[0\] is 11; a token must be in 0\.\.10"):
        generate(model, [[1], [11]], 3)
    with pytest.raises(ShapeError, match="the prompt has 0 tokens; expected 1 to 30"):
        generate(model, [[1], []], 3)
    decoder = CachedDecoder(model, 3)
    for rows in ([3], [0, 0], [-1], [], [[0]], ["a"]):
        with pytest.raises(OptionError, match=r"step takes the rows of different sequences, of 0\.\.2, not"):
            decoder.step(np.array([1]), cast(Any, rows))
    with pytest.raises(ShapeError, match=r"a list of texts, one for each of 3 sequences, not 2"):
        decoder.logits_after([[1], [2]])
    with pytest.raises(ShapeError, match=r"each of at least one token, not one of the shape \(0,\)"):
        decoder.logits_after([[1], []], [0, 1])
    with pytest.raises(ShapeError, match=r"a text has 31 tokens, more than max_position_embeddings, 30"):
        decoder.logits_after([[1] * 31], [0])
    assert decoder.length == 0
