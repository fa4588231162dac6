"""Sampling in a graph: every engine gives the tokens of `sample_tokens` for the same draws."""

from __future__ import annotations

import doctest
from functools import partial
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import OptionError, ShapeError
from wyrm.nn import sampled_tokens
from wyrm.nn.texts import sampling
from wyrm.nn.texts.sampling import SamplingOptions, tokens_of

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "greedy": {"temperature": 0.0}, "cold": {"temperature": 1e-300}, "hot": {"temperature": 5.0},
    "top_k": {"top_k": 3, "temperature": 0.7}, "all": {"top_k": 1000}, "top_p": {"top_p": 0.6},
    "whole": {"top_p": 1.0}, "min_p": {"min_p": 0.2}, "penalty": {"repetition_penalty": 1.8, "temperature": 0.0},
    "together": {"temperature": 1.4, "top_k": 9, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.3},
}  # fmt: skip


class Texts(wy.Dim): ...


def _given(numbers: np.ndarray, _: object) -> np.ndarray:
    """Return draws that are known."""
    return numbers


@pytest.mark.parametrize("name", OPTIONS)
def test_every_engine_samples_the_same_tokens(name: str) -> None:
    # A row is long, of which `sample_tokens` adds up blocks, or short, with the most likely tokens of a part or of all.
    dtype, vocabulary = (np.float32, 2500) if name in ("plain", "top_p", "all") else (np.float64, 30)
    random, options, texts = np.random.default_rng(0), OPTIONS[name], Texts()
    logits = wy.Input(dims=(texts, vocabulary), dtype=dtype, finite=False)
    draws, seen = wy.Input(dims=(texts,), dtype=np.float64), wy.Input(dims=(texts, vocabulary))
    node = sampled_tokens(logits, draws, seen=seen > 0.0, **options)
    program, in_jax = wy.compile(node), wy.compile(node, engine="jax")
    for count in (1, 6):
        values = (random.normal(size=(count, vocabulary)) * 2.0).round(1).astype(dtype)  # with equal logits
        values[:, 1] = -np.inf
        numbers = random.random(count)
        numbers[-1] = np.nextafter(1.0, 0.0)
        previous = random.integers(0, vocabulary, (count, 7))
        mask = np.zeros((count, vocabulary), np.float32)
        np.put_along_axis(mask, previous, 1.0, axis=1)
        given = SamplingOptions(**options)
        wanted = tokens_of(values, given, partial(_given, numbers), previous)
        feed: dict[Any, Any] = {logits: values, draws: numbers, seen: mask}
        feed = {leaf: value for leaf, value in feed.items() if leaf in set(program.inputs)}
        for leaf, value in feed.items():
            leaf.set(value)
        for found in (program(feed), in_jax(feed), node.forward()):
            np.testing.assert_array_equal(found, wanted)


def test_a_decoder_samples_within_its_program() -> None:
    wy.nn.seed(0)
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=9, n_positions=8, n_embd=8, n_layer=1, n_head=2)).eval()
    tokens, draws = wy.IndexInput(dims=(2, 5)), wy.Input(dims=(2,), dtype=np.float64)
    logits: Any = model.logits(tokens)
    program = wy.compile(sampled_tokens(logits[:, -1], draws, top_k=4))
    given = np.random.default_rng(1).integers(0, 9, (2, 5))
    found = program({tokens: given, draws: np.array([0.1, 0.9])})
    last = model.logits(wy.IndexInput(given)).forward()[:, -1]
    np.testing.assert_array_equal(found, tokens_of(last, SamplingOptions(top_k=4), lambda _: np.array([0.1, 0.9])))


def test_errors_and_examples() -> None:
    logits, draws = wy.Constant(np.eye(3)), wy.Constant(np.zeros(3))
    with pytest.raises(ShapeError, match=r"takes logits of the axes \(batch, vocab_size\)"):
        sampled_tokens(draws, draws)
    with pytest.raises(ShapeError, match=r"takes draws of the axis \(batch,\)"):
        sampled_tokens(logits, logits)
    with pytest.raises(OptionError, match="repetition_penalty needs seen"):
        sampled_tokens(logits, draws, repetition_penalty=1.1)
    with pytest.raises(OptionError, match="top_p"):
        sampled_tokens(logits, draws, top_p=0.0)
    assert doctest.testmod(sampling, extraglobs={"wy": wy, "np": np}).failed == 0
