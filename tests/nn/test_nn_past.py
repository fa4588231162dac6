"""What layers keep of earlier tokens: a cached decoder of any model equals the model, and errors say what it lacks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.traversal import topological_order
from wyrm.nn import CachedDecoder, generate
from wyrm.ops.products.product import MatMul

ANY: Any = wy.nn
VOCABULARY, LONGEST = 11, 30
TEXTS = np.random.default_rng(0).integers(0, VOCABULARY, (3, LONGEST))
HALVED = wy.nn.RotaryEmbedding(100.0, {"rope_type": "linear", "factor": 2.0})


class Leaky(wy.nn.Module):
    """A cell whose state decays."""

    def __init__(self) -> None:
        self.decay = wy.Parameter(0.5)

    def initial_state(self, x: Any) -> Any:
        return wy.zeros_like(x)

    def __call__(self, state: Any, x: Any) -> Any:
        state = self.decay * state + x
        return state, state.tanh()


class Recurrent(wy.nn.Module):
    """A language model around a recurrent layer, without a longest sequence."""

    vocab_size = VOCABULARY

    def __init__(self, layer: Any, width: int) -> None:
        self.table, self.layer, self.head = wy.nn.Embedding(VOCABULARY, 4), layer, wy.nn.Linear(width, VOCABULARY)

    def logits(self, tokens: Any, past: Any = None) -> Any:
        return self.head(self.layer(self.table(tokens), past=past).sequence)


class Attentive(wy.nn.Module):
    """A language model around an attention layer."""

    vocab_size, max_position_embeddings = VOCABULARY, LONGEST

    def __init__(self, layer: Any) -> None:
        self.table, self.layer, self.head = wy.nn.Embedding(VOCABULARY, 8), layer, wy.nn.Linear(8, VOCABULARY)

    def logits(self, tokens: Any, past: Any = None) -> Any:
        return self.head(self.layer(self.table(tokens), past=past))


def attention(**options: Any) -> Attentive:
    return Attentive(ANY.MultiHeadAttention(8, 4, **options))


MODELS: dict[str, Callable[[], Any]] = {
    "attention": attention,
    "block": lambda: Attentive(ANY.TransformerBlock(8, 12, 2, rotary=True, dropout=0.3)),
    "grouped": lambda: attention(num_key_value_heads=2, rotary=HALVED, qk_norm=True),
    "windowed": lambda: attention(num_key_value_heads=1, head_dim=6, rotary=True, window=5, output_bias=False),
    "LSTM": lambda: Recurrent(ANY.LSTM(4, 5), 5),
    "GRU": lambda: Recurrent(ANY.GRU(4, 5), 5),
    "StackedLSTM": lambda: Recurrent(ANY.StackedLSTM(4, 5, 2, dropout=0.5), 5),
    "StackedGRU": lambda: Recurrent(ANY.StackedGRU(4, 5, 2), 5),
    "Recurrent": lambda: Recurrent(ANY.Recurrent(Leaky()), 4),
    "Recurrent of two": lambda: Recurrent(ANY.Recurrent([Leaky(), Leaky()]), 4),
}


def made(kind: str) -> Any:
    wy.nn.seed(0)
    model = MODELS[kind]()
    for parameter in model.parameters():  # far from the small first values
        parameter.set(parameter.value + np.random.default_rng(1).normal(size=parameter.shape) * 0.5)
    return model


@pytest.mark.parametrize("kind", MODELS)
def test_a_decoder_equals_its_model(kind: str) -> None:
    model = made(kind)
    whole = model.eval().logits(wy.IndexInput(TEXTS)).forward()
    decoder = CachedDecoder(model.train(), batch_size=3)
    assert all(module.training for module in model.modules())
    for _ in range(2):
        for place in range(5):
            np.testing.assert_allclose(decoder.step(TEXTS[:, place]), whole[:, place], rtol=1e-4, atol=1e-5)
        decoder.read(TEXTS[:, 5:20])
        np.testing.assert_allclose(decoder.step(TEXTS[:, 20]), whole[:, 20], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(decoder.tokens, TEXTS[:, :21])
        decoder.reset()


def test_what_the_decoder_has_is_not_read_again(monkeypatch: Any) -> None:
    for kind, wanted_reads in (("grouped", [3, 1, 2, 4]), ("GRU", [3, 1, 2, 9])):
        model = made(kind)
        whole = model.eval().logits(wy.IndexInput(TEXTS[:1])).forward()
        decoder, taken = CachedDecoder(model), list[int]()
        note = decoder._note
        monkeypatch.setattr(
            decoder, "_note", lambda part, rows, note=note, taken=taken: (taken.append(part.size), note(part, rows))
        )
        other = TEXTS[:1, :6].copy()
        other[0, 5] = (other[0, 5] + 1) % VOCABULARY
        read = []
        for text in (TEXTS[:1, :3], other[:, :4], other, TEXTS[:1, :9]):
            before = sum(taken)
            logits = decoder.logits_after(text)
            read.append(sum(taken) - before)
            wanted = model.logits(wy.IndexInput(text)).forward()[:, -1]
            np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-5)
        assert read == wanted_reads, kind
        # New values of a parameter make what the decoder has stale.
        model.head.bias.set(model.head.bias.value + 1.0)
        np.testing.assert_allclose(decoder.logits_after(TEXTS[:1, :9]), whole[:, 8] + 1.0, rtol=1e-4, atol=1e-5)


def test_tokens_are_forgotten_from_the_end() -> None:
    decoder = CachedDecoder(made("attention"), 3)
    first = decoder.logits_after(TEXTS[:, :9])
    decoder.truncate(4)
    decoder.read(TEXTS[:, 4:8])
    np.testing.assert_allclose(decoder.step(TEXTS[:, 8]), first, rtol=1e-4, atol=1e-5)
    with pytest.raises(OptionError, match="the sequences have 9 tokens, not 10"):
        decoder.truncate(10)
    recurrent = CachedDecoder(made("LSTM"))
    recurrent.read(TEXTS[:1, :5])
    with pytest.raises(OptionError, match=r"Recurrent keeps states, which are those after all 5 tokens"):
        recurrent.truncate(3)
    recurrent.truncate(0)
    with pytest.raises(ShapeError, match=r"logits_after takes tokens of the shape \(batch_size, time\)"):
        recurrent.logits_after(TEXTS[:2, :5])


def test_a_recurrent_text_has_no_end_and_a_decoder_goes_on() -> None:
    model = made("GRU")
    assert len(list(generate(model, [1, 2], 3 * LONGEST, seed=1))) == 3 * LONGEST
    text, decoder = [3, 1, 4], CachedDecoder(model)
    for _ in range(3):
        text += list(generate(decoder, text, 4, temperature=0.0))
    assert text[3:] == list(generate(model, [3, 1, 4], 12, temperature=0.0))
    with pytest.raises(ShapeError, match="the prompt has 0 tokens; expected at least 1"):
        generate(model, [], 1)


def test_a_shorter_cache_has_room_for_fewer_tokens() -> None:
    model = made("grouped")
    decoder = CachedDecoder(model, max_length=6)
    np.testing.assert_allclose(
        decoder.logits_after(TEXTS[:1, :6]), CachedDecoder(model).logits_after(TEXTS[:1, :6]), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ShapeError, match="the cache holds 6 tokens of max_length, 6, and has no room for 1 more"):
        decoder.step(TEXTS[0, :1])
    assert len(list(generate(decoder, [1, 2, 3], 20, seed=1))) == 20
    assert CachedDecoder(model, max_length=1000).limits.longest == LONGEST
    endless = Broken(_attended, max_position_embeddings=None)
    assert len(list(generate(CachedDecoder(endless, max_length=8), [1], 20))) == 20
    with pytest.raises(ValueError, match="max_length must be an integer of at least 1"):
        CachedDecoder(model, max_length=0)


def test_stop_tokens_end_a_text() -> None:
    model = made("attention")
    whole = list(generate(model, [1, 2], 20, seed=4))
    stops: list[Any] = [whole[7], [whole[7]], np.array([whole[7]])]
    for stop in stops:
        assert list(generate(model, [1, 2], 20, seed=4, stop=stop)) == whole[: whole.index(whole[7])]
    with pytest.raises(wy.errors.IndexOutOfRange, match=r"stop\[0\] is 11; a token must be in 0\.\.10"):
        generate(model, [1], 1, stop=11)


def test_a_penalty_is_for_all_earlier_tokens() -> None:
    model, text = made("LSTM"), [3, 1]
    for token in generate(model, [3, 1], 12, temperature=0.0, repetition_penalty=1.7):
        logits = model.eval().logits(wy.IndexInput(np.array([text]))).forward()[0, -1].copy()
        seen = logits[text]
        logits[text] = np.where(seen < 0.0, seen * 1.7, seen / 1.7)
        assert token == logits.argmax()
        text.append(token)


def test_idle_decoders_do_not_keep_a_model() -> None:
    model = made("block")
    list(generate(model, [1], 2))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Broken(wy.nn.Module):
    """A model whose logits are what a function of the embeddings and the past makes."""

    vocab_size: Any = VOCABULARY
    max_position_embeddings: Any = LONGEST

    def __init__(self, function: Any, **attributes: Any) -> None:
        self.table, self.function = wy.nn.Embedding(VOCABULARY, VOCABULARY), function
        for name, value in attributes.items():
            setattr(self, name, value)

    def logits(self, tokens: Any, past: Any = None) -> Any:
        return self.function(self.table(tokens), past)


def _attended(x: Any, past: Any, **options: Any) -> Any:
    heads = x.expand_dims(2)
    return past.attend(heads, heads, heads, **options).squeeze(2)


def _carried(x: Any, past: Any) -> Any:
    state = past.carry(np.zeros((1, VOCABULARY), np.float32))
    past.keep(state, x[:, -1] + state)
    return x, state


class _Counting:
    """A function whose calls keep different things."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any, past: Any) -> Any:
        self.calls += 1
        return _attended(x, past) if self.calls == 1 else _carried(x, past)[0]


BROKEN: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "nothing": (lambda: Broken(lambda x, past: x), ShapeError, "Broken.logits keeps nothing of earlier tokens"),
    "axes": (
        lambda: Broken(lambda x, past: _attended(x, past)[:, :, :3]), ShapeError,
        r"must return the axes \(batch, time, vocab_size\)",
    ),
    "no node": (lambda: Broken(lambda x, past: 3.0), ShapeError, "must return the axes .* not 3.0"),
    "time": (
        lambda: Broken(lambda x, past: _attended(x[:, -1:], past)), ShapeError,
        r"past.attend takes a query of the axes .* time New\(\), those of the tokens",
    ),
    "longest": (
        lambda: Broken(_attended, max_position_embeddings=None), ShapeError,
        "longest sequence, which Broken does not have: set max_position_embeddings",
    ),
    "vocabulary": (lambda: Broken(_attended, vocab_size=None), DTypeError, "Broken needs vocab_size"),
    "other": (lambda: Broken(_Counting()), ShapeError, "keeps other things of earlier tokens than in its first graph"),
    "unkept": (
        lambda: Broken(lambda x, past: x + past.carry(np.zeros((1, 1, VOCABULARY), np.float32))), ShapeError,
        r"carries a state of the axes \(1, 1, 11\) and does not keep the next one",
    ),
    "batch": (
        lambda: Broken(lambda x, past: past.carry(np.zeros((2, VOCABULARY), np.float32))), ShapeError,
        "past.carry takes states whose first axis is the batch, 1 here",
    ),
    "unknown": (lambda: Broken(lambda x, past: past.keep(x, x)), ShapeError, "is no result of past.carry"),
    "integers": (lambda: Broken(lambda x, past: past.carry(wy.IndexConstant([1]))), DTypeError, "states of floats"),
    "window": (lambda: Broken(lambda x, past: _attended(x, past, window=0)), OptionError, "window .* at least 1"),
    "scale": (lambda: Broken(lambda x, past: _attended(x, past, scale=0.0)), OptionError, "scale .* above 0"),
    "shape": (
        lambda: Broken(lambda x, past: past.keep(past.carry(np.zeros((1, 2), np.float32)), x)), ShapeError,
        "the new state must be like",
    ),
    "causal": (lambda: attention(causal=False), ValueError, "causal=False has no past"),
    "alibi": (lambda: attention(alibi=True), ValueError, "alibi has no past"),
    "directions": (
        lambda: Recurrent(ANY.StackedGRU(4, 5, bidirectional=True), 10), ValueError, "past is for one direction",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_errors_say_what_a_model_lacks(name: str) -> None:
    build, error, message = BROKEN[name]
    with pytest.raises(error, match=message):
        CachedDecoder(build())


def test_a_past_goes_with_no_mask_or_key() -> None:
    class Masked(Attentive):
        def logits(self, tokens: Any, past: Any = None) -> Any:
            x: Any = self.table(tokens)
            return self.layer(x, np.ones((1, 1, 1), np.bool_), past=past)

    with pytest.raises(ValueError, match="past is for one sequence whose tokens all count, without mask"):
        CachedDecoder(Masked(ANY.MultiHeadAttention(8, 4)))
    with pytest.raises(OptionError, match="past is for given tokens, so it takes no forced"):
        ANY.Recurrent(Leaky())(wy.Input(dims=(1, 2, 3)), forced=True, past=object())


def test_objects_that_are_no_modules_generate_too() -> None:
    model = made("attention")

    class Plain:
        __slots__ = ()
        vocab_size, config = VOCABULARY, model  # the longest sequence is that of the configuration

        def logits(self, tokens: Any, past: Any = None) -> Any:
            return model.logits(tokens, past)

    assert list(generate(Plain(), [1, 2], 9, seed=3)) == list(generate(model, [1, 2], 9, seed=3))


def test_passes_of_prompts_write_keys_and_values_to_memory_that_they_had_before() -> None:
    """A copy of each output would ask the system for new pages in each pass."""
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=VOCABULARY, n_positions=256, n_embd=64, n_layer=2, n_head=4)).eval()
    decoder, tokens = CachedDecoder(model), np.arange(200)[None] % VOCABULARY
    program, places = decoder._read.program, list[list[tuple[tuple[int, ...], int]]]()

    def noted(given: Any) -> Any:
        results = program(given)
        assert all(each.flags.c_contiguous for each in results)
        places.append([(each.shape, each.ctypes.data) for each in results])
        return results

    replaced: Any = noted
    decoder._read._program = replaced
    for _ in range(4):
        decoder.reset()
        decoder.read(tokens)
    assert [shape for shape, _ in places[0]] == [(1, 2, 200, 4, 16)] * 2
    assert places[2] == places[3]


class Softened(Attentive):
    """A language model whose last node needs the logits of all tokens, as far as its decoder knows."""

    def logits(self, tokens: Any, past: Any = None) -> Any:
        return super().logits(tokens, past).log_softmax()


def test_the_last_pass_of_a_prompt_computes_the_logits_of_its_last_token_alone() -> None:
    """Nor does it compute what the last block makes of the other tokens: no later one reads it."""
    config = wy.nn.DecoderConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=LONGEST,
    )  # fmt: skip
    decoder = CachedDecoder(wy.nn.Decoder(config).eval())
    products = [node for node in topological_order(decoder._ask.outputs) if isinstance(node, MatMul)]
    times = [axis_size(node.dims[1]) for node in products]
    # Of both blocks the keys, values and queries, of the first one its output and the feed-forward part.
    assert times.count(None) == 2 + 1 + 3
    # Of the second one its output and the feed-forward part, and then the vocabulary.
    assert times.count(1) == 1 + 3 + 1


@pytest.mark.parametrize("kind", [Attentive, Softened])
def test_a_text_has_the_logits_of_its_tokens_and_a_step(kind: Any) -> None:
    model = kind(ANY.MultiHeadAttention(8, 2, rotary=True))
    decoder, other = CachedDecoder(model), CachedDecoder(model)
    assert decoder._ask.with_logits == (kind is Attentive)
    # A text of few tokens, one of many, one that goes on, and one that goes on from the beginning of another.
    for text in (TEXTS[0, :4], TEXTS[0, :20], TEXTS[0, :25], TEXTS[0, :26], [*TEXTS[0, :9], *TEXTS[1, :9]]):
        given = np.array(text)
        other.reset()
        other.read(given[None, :-1])
        np.testing.assert_allclose(decoder.logits_after([given]), other.step(given[-1:]), rtol=1e-5, atol=1e-6)
        assert decoder.lengths.tolist() == [len(given)]
    assert decoder._ask.is_compiled == decoder._ask.with_logits
    assert decoder._read.is_compiled != decoder._ask.with_logits
