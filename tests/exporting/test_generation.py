"""Exported decoders continue texts as Python does, and draw tokens with the probabilities of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.in_wasm import in_wasm
from tests.exporting.loaded import Loaded, loaded
from wyrm.engines.native.run.shuffle import compiled
from wyrm.errors import DTypeError
from wyrm.exporting.building import build
from wyrm.exporting.errors import ERRORS
from wyrm.exporting.generation import PASS
from wyrm.exporting.targets import target_named
from wyrm.ops.random.token_kernels import drawn, sampled_token

CODES = {name: code for name, (code, _) in ERRORS.items()}
VOCABULARY, POSITIONS = 499, 12


@pytest.fixture(scope="module")
def made() -> tuple[Any, Loaded]:
    wy.nn.seed(0)
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=16, n_layer=2, n_head=2))
    return model, loaded(generate=model)


def follow(export: Any, token: int, **options: Any) -> tuple[int, int]:
    code, found = export.call("next", **{"token": token, "temperature": 0.0, "top_k": 0, "seed": 0, **options})
    return code, int(found["next"])


def continued(export: Any, prompt: Sequence[int], count: int, **options: Any) -> list[int]:
    assert export.call("begin")[0] == 0
    tokens = list(prompt)
    for token in prompt[:-1]:
        assert follow(export, token, **options)[0] == 0
    for _ in range(count):
        code, found = follow(export, tokens[-1], **options)
        assert code == 0
        tokens.append(found)
    return tokens[len(prompt) :]


def test_the_most_likely_tokens_are_those_of_python(made: tuple[Any, Loaded]) -> None:
    model, export = made
    assert export.start() == 0
    for prompt in ([3, 4, 5], [30]):
        count = POSITIONS - len(prompt) + 1
        assert continued(export, prompt, count) == list(wy.nn.generate(model, prompt, count, temperature=0.0))
    assert follow(export, 1)[0] == CODES["FULL"]


def test_draws_are_repeatable_and_bad_arguments_are_refused(made: tuple[Any, Loaded]) -> None:
    _, export = made
    assert export.start() == 0
    first = continued(export, [3], 10, temperature=2.0, seed=1)
    assert first == continued(export, [3], 10, temperature=2.0, seed=1)
    assert first != continued(export, [3], 10, temperature=2.0, seed=2)
    assert continued(export, [3], 10, temperature=2.0, top_k=1) == continued(export, [3], 10)
    assert export.call("begin")[0] == 0
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"token": -1}, "INDEX"), ({"token": VOCABULARY}, "INDEX"), ({"temperature": -1.0}, "ARGUMENT"),
        ({"temperature": np.nan}, "ARGUMENT"), ({"temperature": np.inf}, "ARGUMENT"), ({"top_k": -1}, "ARGUMENT"),
        ({"seed": -1}, "ARGUMENT"), ({"top_p": -0.1}, "ARGUMENT"), ({"top_p": 1.1}, "ARGUMENT"),
        ({"min_p": np.nan}, "ARGUMENT"), ({"repetition_penalty": -1.0}, "ARGUMENT"),
        ({"repetition_penalty": np.inf}, "ARGUMENT"), ({"stop": [1, VOCABULARY]}, "INDEX"), ({"stop": [-1]}, "INDEX"),
    ]  # fmt: skip
    for options, error in wrong:
        assert follow(export, **({"token": 1} | options))[0] == CODES[error], options
    assert follow(export, 1)[0] == 0


SAMPLERS: list[dict[str, Any]] = [
    {}, {"top_k": 3}, {"top_k": 40}, {"top_k": 600}, {"top_p": 0.9}, {"top_p": 0.4}, {"top_p": 1.0}, {"min_p": 0.3},
    {"repetition_penalty": 1.7}, {"repetition_penalty": 0.6},
    {"top_k": 30, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.3}, {"top_p": 0.95, "min_p": 0.2},
]  # fmt: skip


@pytest.mark.parametrize("temperature", [0.0, 0.7, 5.0])
def test_tokens_are_those_of_generate_for_a_seed(made: tuple[Any, Loaded], temperature: float) -> None:
    model, export = made
    assert export.start() == 0
    for options in SAMPLERS:
        for seed in (0, 7, 2**40 + 3):
            given = {"temperature": temperature, "seed": seed, **options}
            wanted = list(wy.nn.generate(model, [3, 4, 9, 1], POSITIONS - 3, **given))
            assert continued(export, [3, 4, 9, 1], POSITIONS - 3, **given) == wanted, given
            # A prompt that is read at once counts as much.
            assert export.call("begin")[0] == 0
            assert export.call("read_tokens", 3, tokens=[3, 4, 9])[0] == 0
            found = [1]
            while len(found) <= len(wanted):
                code, token = follow(export, found[-1], **given)
                assert code == 0
                found.append(token)
            assert found[1:] == wanted, given


def test_a_token_that_ends_is_minus_one_and_is_not_taken(made: tuple[Any, Loaded]) -> None:
    model, export = made
    assert export.start() == 0
    tokens = list(wy.nn.generate(model, [3], 9, temperature=2.0, seed=1))
    stop = [tokens[5], 0]
    wanted = list(wy.nn.generate(model, [3], 9, temperature=2.0, seed=1, stop=stop))
    assert len(wanted) <= 5
    found = continued(export, [3], len(wanted) + 1, temperature=2.0, seed=1, stop=stop)
    assert found == [*wanted, -1]
    # The text goes on with any other token.
    assert follow(export, 5, temperature=2.0, seed=1, stop=stop)[0] == 0


def test_tokens_have_the_probabilities_of_the_model() -> None:
    select, number = compiled(sampled_token), compiled(drawn)
    logits, seen = np.array([0.0, 2.0, 1.0, -1.0, 2.0, -np.inf], np.float32), np.zeros(6, np.bool_)
    scratch = np.zeros(6, np.float32), np.zeros(6), np.zeros(6, np.int64)

    def token(given: np.ndarray, temperature: float, top_k: int, draw: float) -> int:
        return int(select(given, seen, temperature, top_k, 0.0, 0.0, 0.0, draw, *scratch))

    for top_k, kept in ((0, [0, 1, 2, 3, 4]), (3, [1, 4, 2]), (1, [1]), (7, [0, 1, 2, 3, 4])):
        weights = np.zeros(6)
        weights[kept] = np.exp(logits[kept] / 0.7)
        found = np.bincount([token(logits, 0.7, top_k, number(5, at)) for at in range(4000)], minlength=6)
        np.testing.assert_allclose(found / 4000, weights / weights.sum(), atol=0.03)
    assert token(logits, 0.0, 0, 0.5) == 1
    for wrong in (np.nan, np.inf, -np.inf):
        assert token(np.full(6, wrong, np.float32), 1.0, 0, 0.5) == -1
    assert token(np.where(np.arange(6) == 3, np.float32(np.nan), logits), 1.0, 2, 0.5) == -1


PROMPT = [(7 * i) % 31 for i in range(4, 104)]


@pytest.fixture(scope="module")
def longer() -> Any:
    wy.nn.seed(0)
    return wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=31, n_positions=100, n_embd=16, n_layer=2, n_head=2))


@pytest.mark.parametrize("make", [lambda model: loaded(generate=model), lambda model: in_wasm(generate=model)])
def test_prompts_are_read_at_once(longer: Any, make: Callable[[Any], Any]) -> None:
    export = make(longer)
    assert export.start() == 0
    for length in (0, 1, 5, PASS, PASS + 1, 2 * PASS + 5, 99):
        count = min(100 - length, 6)
        wanted = continued(export, PROMPT[: length + 1], count)
        assert export.call("begin")[0] == 0
        # In two calls, the second of which begins behind a sequence.
        for tokens in (PROMPT[: length // 3], PROMPT[length // 3 : length]):
            assert export.call("read_tokens", len(tokens), tokens=np.array(tokens, np.int64))[0] == 0
        found = [PROMPT[length]]
        for _ in range(count):
            code, token = follow(export, found[-1])
            assert code == 0
            found.append(token)
        assert found[1:] == wanted, length
    assert wanted == list(wy.nn.generate(longer, PROMPT, 1, temperature=0.0))
    assert export.call("read_tokens", 1, tokens=np.array([1]))[0] == CODES["FULL"]
    assert export.call("read_tokens", 0, tokens=np.zeros(0, np.int64))[0] == 0


def test_prompts_that_are_refused_change_nothing(longer: Any) -> None:
    export = loaded(generate=longer)
    assert export.start() == 0
    wanted = continued(export, PROMPT[:41], 5)
    assert export.call("begin")[0] == 0
    assert export.call("read_tokens", 30, tokens=PROMPT[:30])[0] == 0
    assert export.block.bytes is not None
    before = export.block.bytes.copy()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tokens": None, "count": 3}, "ARGUMENT"), ({"tokens": [1], "count": -1}, "ARGUMENT"),
        ({"tokens": [1] * 40 + [31]}, "INDEX"), ({"tokens": [-1] + [1] * 40}, "INDEX"),
        ({"tokens": [1] * 71}, "FULL"), ({"tokens": [1], "count": 2**62}, "FULL"),
    ]  # fmt: skip
    for given, error in wrong:
        assert export.call("read_tokens", len(given["tokens"] or ()), **given)[0] == CODES[error], given
        assert np.array_equal(export.block.bytes, before), given
    assert export.function("model_read_tokens")(None, None, 0) == CODES["MEMORY"]
    assert export.call("read_tokens", 10, tokens=PROMPT[30:40])[0] == 0
    found = PROMPT[40:41]
    for _ in range(5):
        found.append(follow(export, found[-1])[1])
    assert found[1:] == wanted


def test_layers_share_scratch_memory() -> None:
    def memory(layers: int) -> int:
        config = wy.nn.GPT2Config(vocab_size=31, n_positions=512, n_embd=32, n_layer=layers, n_head=1)
        target = target_named("c", None, None)
        return build("model", target, None, {}, 1, {}, None, wy.nn.GPT2(config)).interface.memory_bytes

    parameters, cache, new = 4 * (12 * 32 * 32 + 13 * 32), 4 * 2 * 32 * 512, 4 * PASS * 3 * 32
    assert memory(4) - memory(2) < 2 * (parameters + cache + new + 8192)


class Recurrent(wy.nn.Module):
    """A language model of two recurrent layers, without a longest sequence."""

    vocab_size = 31

    def __init__(self) -> None:
        self.table = wy.nn.Embedding(31, 8, initializer=wy.nn.initializers.Normal())
        self.lstm, self.gru, self.head = wy.nn.LSTM(8, 8), wy.nn.GRU(8, 8), wy.nn.Linear(8, 31)

    def logits(self, tokens: Any, past: Any = None) -> Any:
        hidden = self.lstm(self.table(tokens), past=past).sequence
        return self.head(self.gru(hidden, past=past).sequence)


class Attentive(wy.nn.Module):
    """A language model with grouped heads, a window, rotations and a state beside its caches."""

    vocab_size, max_position_embeddings = 31, 80

    def __init__(self, *, has_state: bool) -> None:
        self.table = wy.nn.Embedding(31, 8, initializer=wy.nn.initializers.Normal())
        self.attention = wy.nn.MultiHeadAttention(
            8, 4, num_key_value_heads=2, head_dim=6, rotary=True, qk_norm=True, window=7,
            initializer=wy.nn.initializers.Normal(0.5),
        )  # fmt: skip
        self.gru = wy.nn.GRU(8, 8) if has_state else None
        self.head = wy.nn.Linear(8, 31)

    def logits(self, tokens: Any, past: Any = None) -> Any:
        hidden: Any = self.table(tokens)
        if self.gru is not None:
            hidden = hidden + self.gru(hidden, past=past).sequence
        return self.head(hidden + self.attention(hidden, past=past))


@pytest.mark.parametrize("make", [lambda model: loaded(generate=model), lambda model: in_wasm(generate=model)])
@pytest.mark.parametrize("kind", ["recurrent", "attentive", "both", "decoder"])
def test_any_model_leaves(kind: str, make: Callable[[Any], Any]) -> None:
    wy.nn.seed(4)
    model: Any = Recurrent() if kind == "recurrent" else Attentive(has_state=kind == "both")
    if kind == "decoder":
        config = wy.nn.DecoderConfig(
            vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=80, qk_norm=True, zero_centered_norms=True,
            embedding_scale=4.0, tie_word_embeddings=True,
        )  # fmt: skip
        model = wy.nn.Decoder(config)
        for parameter in model.parameters():
            parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.3)
    export = make(model)
    assert export.start() == 0
    for length in (0, 5, PASS + 9):
        assert export.call("begin")[0] == 0
        tokens = np.array(PROMPT[:length], np.int64)
        assert export.call("read_tokens", length, tokens=tokens)[0] == 0
        found = [PROMPT[length]]
        for _ in range(8):
            code, token = follow(export, found[-1])
            assert code == 0
            found.append(token)
        assert found[1:] == list(wy.nn.generate(model, PROMPT[: length + 1], 8, temperature=0.0))


def test_another_model_is_refused() -> None:
    with pytest.raises(
        DTypeError, match=r"generate takes a model with a method logits\(tokens, past=None\).* not Linear"
    ):
        wy.export("unused", generate=wy.nn.Linear(2, 3))  # type: ignore[arg-type]  # on purpose
