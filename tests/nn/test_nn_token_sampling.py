"""The next token: against a plain loop over the vocabulary, and by how often each is drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.nn.texts.sampling import sample_tokens


def probabilities(logits: list[float], temperature: float, top_k: int | None, top_p: float | None) -> list[float]:
    """The probability of each token, by the definition."""
    highest = max(logits)
    weights = [math.exp((logit - highest) / temperature) for logit in logits]
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    total = sum(weights[token] for token in ranked)
    kept, sum_so_far = [], 0.0
    for token in ranked:
        kept.append(token)
        sum_so_far += weights[token]
        if top_p is not None and top_p < 1.0 and sum_so_far / total >= top_p:
            break
    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(logits))]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


LOGITS = [0.3, -1.0, 2.0, 2.0, -math.inf, 0.3, 1.2]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("top_k", [None, 1, 2, 3, 7, 100])
@pytest.mark.parametrize("top_p", [None, 1e-9, 0.5, 0.9, 1.0])
def test_tokens_come_as_often_as_they_are_likely(temperature: float, top_k: int | None, top_p: float | None) -> None:
    draws = 20_000
    chosen = sample_tokens(np.tile(LOGITS, (draws, 1)), generator(), temperature, top_k, top_p)
    expected = np.array(probabilities(LOGITS, temperature, top_k, top_p))
    found = np.bincount(chosen, minlength=len(LOGITS)) / draws
    assert not found[expected == 0.0].any()
    assert (np.abs(found - expected) <= 5.0 * np.sqrt(expected * (1.0 - expected) / draws)).all()


@pytest.mark.parametrize("top_k", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("top_p", [None, 0.5, 0.9])
def test_tokens_that_are_impossible_change_nothing(top_k: int, top_p: float | None) -> None:
    """The largest logits of long rows are found in another way, whose ties go to the lower ids as well."""
    short = np.stack([np.roll(LOGITS, i) for i in range(500)])
    long = np.full((500, 150), -math.inf)
    long[:, 20:27] = short
    expected = sample_tokens(short, generator(), 1.0, top_k, top_p)
    np.testing.assert_array_equal(sample_tokens(long, generator(), 1.0, top_k, top_p) - 20, expected)


@pytest.mark.parametrize("tokens", [2049, 2176, 8000])
def test_tokens_of_a_large_vocabulary_come_as_often_as_they_are_likely(tokens: int) -> None:
    logits, draws = np.full(tokens, -math.inf), 5_000
    likely = [0, 1, 127, 128, 129, 1000, 2047, 2048, tokens - 1]
    logits[likely] = np.arange(len(likely)) * 0.3
    chosen = sample_tokens(np.tile(logits, (draws, 1)), generator())
    expected = np.array(probabilities(logits.tolist(), 1.0, None, None))
    found = np.bincount(chosen, minlength=tokens) / draws
    assert not found[expected == 0.0].any()
    assert (np.abs(found - expected) <= 5.0 * np.sqrt(expected * (1.0 - expected) / draws)).all()


class Drawn:
    """A generator that draws these numbers."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = numbers

    def random(self, count: int) -> Any:
        return np.array(self.numbers[:count])


def test_a_draw_of_almost_one_falls_on_a_token_that_is_possible() -> None:
    logits = np.random.default_rng(0).normal(size=(500, 5000)).astype(np.float32)
    logits[:, 4200:] = -np.inf
    random: Any = Drawn(*[1.0 - 2.0**-53] * 500)
    assert (sample_tokens(logits, random) < 4200).all()
    assert (sample_tokens(logits[:, ::-1], Drawn(*[0.0] * 500)) >= 800).all()  # type: ignore[arg-type]  # no generator


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([-math.inf, -2.0, -0.5, 0.0, 0.7, 1.0, 3.0]), min_size=1, max_size=6).filter(
        lambda logits: max(logits) > -math.inf
    ),
    st.sampled_from([0.2, 1.0, 3.0]),
    st.none() | st.integers(1, 8),
    st.none() | st.sampled_from([0.01, 0.3, 0.77, 0.999, 1.0]),
)
def test_what_can_be_chosen_is_what_a_plain_loop_leaves(
    logits: list[float], temperature: float, top_k: int | None, top_p: float | None
) -> None:
    expected = probabilities(logits, temperature, top_k, top_p)
    chosen = sample_tokens(np.tile(logits, (300, 1)), generator(), temperature, top_k, top_p)
    assert {token for token in range(len(logits)) if expected[token] > 0.05} <= set(chosen.tolist())
    assert all(expected[token] > 0.0 for token in chosen.tolist())


class Fixed:
    """A generator that draws a given number for every row."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, count: int) -> Any:
        return np.full(count, self.number)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.25, {0}), (0.5, {0}), (0.500001, {0, 1}), (0.75, {0, 1}), (0.76, {0, 1, 2}), (1.0, {0, 1, 2, 3})],
)
def test_the_token_that_crosses_the_mass_is_in(top_p: float, kept: set[int]) -> None:
    logits = np.log2([0.5, 0.25, 0.125, 0.125]) * np.log(2.0)  # to the last bit
    # `Fixed` has all that is used of a generator.
    chosen = {
        int(sample_tokens(logits, Fixed(draw), top_p=top_p))  # type: ignore[arg-type]
        for draw in np.linspace(0.0, 0.9999, 200)
    }
    assert chosen == kept


@pytest.mark.parametrize("draw", [0.0, 1.0 - 2.0**-53])
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.9}, {"top_k": 3, "top_p": 0.9}])
def test_the_first_and_the_last_draw_there_is(draw: float, options: Any) -> None:
    rows = np.array([[-np.inf, 0.0, 1.0, -np.inf], [1.0, -np.inf, -np.inf, -np.inf], [-np.inf, -np.inf, -np.inf, 0.0]])
    chosen = sample_tokens(rows, Fixed(draw), **options)  # type: ignore[arg-type]  # all that is used
    assert np.isfinite(np.take_along_axis(rows, chosen[:, None], axis=-1)).all()


def test_ties_go_to_the_lower_ids() -> None:
    logits = np.tile([1.0, 2.0, 2.0, 2.0, 1.0], (500, 1))
    assert set(sample_tokens(logits, generator(), 0.0).tolist()) == {1}
    assert set(sample_tokens(logits, generator(), top_k=2).tolist()) == {1, 2}
    assert set(sample_tokens(logits, generator(), top_p=0.3).tolist()) == {1, 2}


def test_greedy_takes_the_greatest_and_draws_nothing() -> None:
    random = generator()
    logits = generator(1).normal(size=(50, 9))
    before = random.bit_generator.state
    assert (sample_tokens(logits, random, 0.0, top_k=3, top_p=0.2) == logits.argmax(axis=-1)).all()
    assert random.bit_generator.state == before
    assert (sample_tokens(logits, random, top_k=1) == logits.argmax(axis=-1)).all()
    assert (sample_tokens(logits, random, temperature=1e-300) == logits.argmax(axis=-1)).all()


def test_logits_may_be_as_large_and_as_far_apart_as_floats_are() -> None:
    logits = np.array([[1.7e308, -1.7e308, 1.0], [-1.7e308, -np.inf, -1.7e308]])
    assert sample_tokens(logits, generator(), 1e-308)[0] == 0
    assert set(sample_tokens(np.tile(logits[1:], (200, 1)), generator()).tolist()) == {0, 2}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 3, 5), (0, 5)])
def test_one_token_for_each_row(dtype: Any, shape: tuple[int, ...]) -> None:
    for options in ({}, {"temperature": 0.0}, {"top_k": 2}, {"top_p": 0.5}):
        chosen = sample_tokens(np.ones(shape, dtype), generator(), **options)
        assert chosen.shape == shape[:-1] and chosen.dtype == np.int64


def test_the_seed_decides_and_the_logits_stay() -> None:
    logits = generator(1).normal(size=(100, 20)).astype(np.float32)
    before = logits.copy()
    first, again, other = (sample_tokens(logits, generator(seed), 2.0, 10, 0.9) for seed in (3, 3, 4))
    assert (first == again).all() and (first != other).any()
    assert (logits == before).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, r"temperature must be finite and at least 0, not -0\.1"),
        ({"temperature": math.nan}, "temperature must be finite and at least 0, not nan"),
        ({"temperature": math.inf}, "temperature must be finite and at least 0, not inf"),
        ({"top_k": 0}, "top_k must be an integer of at least 1, not 0"),
        ({"top_k": -3}, "top_k must be an integer of at least 1, not -3"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], not 0\.0"),
        ({"top_p": 1.1}, r"top_p must be in \(0, 1\], not 1\.1"),
        ({"top_p": math.nan}, "top_p must be finite, not nan"),
    ],
)
def test_options_out_of_range(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_tokens(np.zeros((1, 3)), generator(), **options)


@pytest.mark.parametrize("options", [{"temperature": "1"}, {"top_k": 1.5}, {"top_k": True}, {"top_p": "all"}])
def test_options_of_another_kind(options: Any) -> None:
    with pytest.raises(DTypeError, match=next(iter(options))):
        sample_tokens(np.zeros((1, 3)), generator(), **options)


def test_logits_that_are_none() -> None:
    for wrong, message in [(np.nan, r"hold nan at \(1, 2\)"), (np.inf, r"hold inf at \(1, 2\)")]:
        logits = np.zeros((2, 3))
        logits[1, 2] = wrong
        with pytest.raises(NotFinite, match=message):
            sample_tokens(logits, generator(), temperature=0.0)
    with pytest.raises(NotFinite, match=r"all logits of row \(1,\) are minus infinity"):
        sample_tokens(np.array([[0.0, 0.0], [-np.inf, -np.inf]]), generator())
    with pytest.raises(NotFinite, match=r"all logits of row \(\) are minus infinity"):
        sample_tokens(np.array([-np.inf]), generator())
    for shape in [(), (2, 0)]:
        with pytest.raises(ShapeError, match="expected"):
            sample_tokens(np.zeros(shape), generator())
    with pytest.raises(DTypeError, match="logits have dtype int64; expected floats"):
        sample_tokens(np.zeros((1, 3), np.int64), generator())


def test_the_function_stands_with_the_modules() -> None:
    assert wy.nn.sample_tokens is sample_tokens


@pytest.mark.parametrize("options", [{"min_p": 0.2}, {"min_p": 0.05, "top_k": 6}, {"min_p": 0.3, "top_p": 0.8}])
def test_what_min_p_keeps(options: dict[str, Any]) -> None:
    logits = np.random.default_rng(3).normal(size=(1, 9)) * 2.0
    weights = np.exp(logits[0] / 1.3)
    weights /= weights.sum()
    order = np.argsort(-weights)
    kept = set(order[: options.get("top_k", 9)].tolist())
    if "top_p" in options:
        kept = set(order[: int((np.cumsum(weights[order]) >= options["top_p"]).argmax()) + 1].tolist())
    kept &= set(np.flatnonzero(weights >= options["min_p"] * weights.max()).tolist())
    rows = np.broadcast_to(logits, (3000, 9))
    found = np.bincount(sample_tokens(rows, np.random.default_rng(0), 1.3, **options), minlength=9) / 3000
    wanted = np.where(np.isin(np.arange(9), list(kept)), weights, 0.0)
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.03)
    assert set(np.flatnonzero(found)) == kept


def test_penalties_and_min_p_are_those_of_transformers() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    logits = np.random.default_rng(5).normal(size=(4, 50)).astype(np.float32) * 2.0
    previous = np.random.default_rng(6).integers(0, 50, (4, 30))
    ids, scores = torch.from_numpy(previous), torch.from_numpy(logits.copy())
    scores = transformers.RepetitionPenaltyLogitsProcessor(1.4)(ids, scores)
    options: dict[str, Any] = {"repetition_penalty": 1.4, "previous": previous}
    found = sample_tokens(logits, np.random.default_rng(0), 0.0, **options)
    np.testing.assert_array_equal(found, scores.argmax(-1).numpy())
    for warper in (transformers.TemperatureLogitsWarper(0.7), transformers.MinPLogitsWarper(0.1)):
        scores = warper(ids, scores)
    drawn = [sample_tokens(logits, np.random.default_rng(i), 0.7, min_p=0.1, **options) for i in range(2000)]
    for row, column in zip(scores.softmax(-1).numpy(), np.transpose(drawn), strict=True):
        np.testing.assert_allclose(np.bincount(column, minlength=50) / 2000, row, atol=0.05)


def test_options_that_no_sampling_has() -> None:
    logits, rng = np.zeros((2, 3)), np.random.default_rng(0)
    for options, error, message in (
        ({"min_p": 1.5}, OptionError, r"min_p must be in \[0, 1\], not 1.5"),
        ({"repetition_penalty": 1.2}, OptionError, "repetition_penalty needs previous"),
        ({"repetition_penalty": 0.0, "previous": np.zeros((2, 1), int)}, OptionError, "must be above 0"),
        ({"repetition_penalty": 2.0, "previous": np.zeros(2, int)}, ShapeError, r"it must be \(2,\) with an axis"),
        ({"repetition_penalty": 2.0, "previous": np.full((2, 1), 3)}, IndexOutOfRange, "previous has the token 3"),
        ({"repetition_penalty": 2.0, "previous": np.zeros((2, 1))}, DTypeError, "the numbers of tokens, not float64"),
    ):
        given: dict[str, Any] = options
        with pytest.raises(error, match=message):
            sample_tokens(logits, rng, **given)
