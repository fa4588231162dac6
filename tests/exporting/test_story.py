"""The page of a language model continues texts as Python does, and learns from a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from bench.browser import served
from tests.browser import OpenPage
from wyrm.errors import OptionError

SENTENCES = ["Tom had a ball.", "Lily took the kite to the park.", "At the sea, Sam was happy."]
TEXT = " ".join(SENTENCES[i % 3] for i in range(60))
LENGTH = 16


@pytest.fixture(scope="module")
def made() -> tuple[wy.nn.Decoder, wy.data.Tokenizer, Any, Any]:
    """Return a model of int8 with an adapter, its tokenizer, the training of the adapter, and its inputs."""
    tokenizer = wy.data.Tokenizer.train(TEXT, 300)
    config = wy.nn.DecoderConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=48, tie_word_embeddings=True,
    )  # fmt: skip
    with wy.nn.seeded(0):
        model = wy.nn.Decoder(config)
    for parameter in model.parameters():
        parameter.set(parameter.value + np.random.default_rng(2).normal(size=parameter.shape) * 0.1)
    model.quantize("int8")
    adapter = wy.nn.LoRA(model.train(), rank=4, alpha=16.0)
    tokens = wy.IndexInput(dims=(wy.Dim(), LENGTH), name="read")
    targets = wy.IndexInput(dims=tokens.dims, name="following")
    train = wy.compile(model.loss(tokens, targets), wy.optim.Adam(adapter.parameters(), 0.01, epsilon=1e-3))
    return model.eval(), tokenizer, train, (tokens, targets)


@pytest.fixture(scope="module")
def folder(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, tokenizer, train, _ = made
    place = tmp_path_factory.mktemp("story")
    wy.export(place, train=train, generate=model, tokenizer=tokenizer, target="wasm32", batch_sizes=8, name="teller")
    return place


def told(page: Any) -> str:
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector("body[data-told=yes]")
    return str(page.locator("#told").text_content())


def test_a_page_continues_a_text_as_python_does_and_learns(made: Any, folder: Path, open_page: OpenPage) -> None:
    model, tokenizer, train, (tokens, targets) = made
    begin = "Lily took é"

    def wanted(count: int = 30, **options: Any) -> str:
        found = wy.nn.generate(model, tokenizer.encode("<|endoftext|>" + begin), count, stop=0, **options)
        return begin + str(tokenizer.decode(np.array(list(found), np.int64)))

    with served(folder) as address:
        page = open_page(address)
        page.wait_for_selector("#tell:not([disabled])")
        page.fill("#begin", begin)
        page.fill("#limit", "30")
        options: dict[str, Any] = {"temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.05}
        assert told(page) == wanted(**options)
        assert "a second" in str(page.text_content("#speed"))
        page.fill("#draws", "7")
        page.fill("#top_k", "5")
        assert told(page) == wanted(**options, top_k=5, seed=7)
        page.fill("#limit", "500")  # there is room for 48 tokens
        assert told(page) == wanted(49 - len(tokenizer.encode("<|endoftext|>" + begin)), **options, top_k=5, seed=7)
        # A text that is too short to learn from is refused, and nothing else changes.
        page.fill("#lesson", "Tom")
        page.get_by_role("button", name="Train").click()
        page.wait_for_selector("#problem:not(:empty)")
        assert "to learn from it takes 16 or more" in str(page.text_content("#problem"))
        page.fill("#lesson", TEXT)
        page.fill("#epochs", "4")
        page.fill("#batch", "8")
        page.get_by_role("button", name="Train").click()
        page.wait_for_selector("body[data-done=yes]")
        shown = str(page.text_content("#numbers"))
        assert shown.startswith("epoch 4: loss ")
        given = [0, *tokenizer.encode(TEXT), 0]
        rows = (len(given) - 1) // LENGTH
        data = {
            leaf: np.array(given[start : start + rows * LENGTH]).reshape(rows, LENGTH)
            for start, leaf in enumerate((tokens, targets))
        }
        losses = [float(train.epoch(data, batch_size=8, shuffle=True, seed=0)) for _ in range(4)]
        assert losses[-1] < losses[0] - 0.1
        np.testing.assert_allclose(float(shown.split()[3].rstrip(",")), losses[-1], rtol=1e-3)
        page.fill("#limit", "20")
        page.fill("#temperature", "0")
        assert told(page) == wanted(20, temperature=0.0, repetition_penalty=1.05)


def test_tokenizers_where_there_is_no_page(made: Any, tmp_path: Path) -> None:
    model, tokenizer, train, _ = made
    for options in ({"generate": model}, {"train": train, "target": "wasm32"}):
        with pytest.raises(OptionError, match=r'needs generate=model and target="wasm32"'):
            wy.export(tmp_path / "none", tokenizer=tokenizer, **options)
    x = wy.Input(dims=(wy.Dim(), 3), name="x")
    weight = wy.Parameter(np.zeros(3, np.float32), name="weight")
    other = wy.compile((x @ weight).square().mean(), wy.optim.SGD([weight], 0.1))
    with pytest.raises(OptionError, match=r"a page trains model\.loss\(tokens, targets\), .* not a loss of x"):
        wy.export(tmp_path / "none", train=other, generate=model, tokenizer=tokenizer, target="wasm32")
    assert not (tmp_path / "none").exists()
