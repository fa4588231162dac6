"""A chat in a terminal: each answer is that to the whole chat, and only what is new is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.io.test_io_tokenizers import folder_of
from wyrm.errors import CheckpointError, ShapeError
from wyrm.nn import CachedDecoder, generate
from wyrm.nn.texts.chat import check_chats, converse, pretrained

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + ' ' + message.content + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant ' }}{% endif %}"
)


def written(path: Path, longest: int) -> Path:
    wy.nn.seed(0)
    config = wy.nn.DecoderConfig(
        vocab_size=320, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=longest,
    )  # fmt: skip
    model = wy.nn.Decoder(config)
    model.tokens.weight.set(model.tokens.weight.value * 30.0)
    model.save_pretrained(path)
    return folder_of(path, chat_template=TEMPLATE)


def test_answers_are_those_to_the_whole_chat(tmp_path: Path) -> None:
    folder = written(tmp_path, 200)
    model, tokenizer, pieces = pretrained(folder), wy.io.tokenizer(folder), list[str]()
    decoder = CachedDecoder(model)
    messages = converse(
        decoder, tokenizer, ["the weather", "sunny?"], pieces.append, system="Hi", max_new_tokens=9,
        temperature=0.9, seed=4,
    )  # fmt: skip
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert "".join(pieces) == f"{messages[2]['content']}\n{messages[4]['content']}\n"
    for end in (2, 4):
        prompt: Any = tokenizer.chat(messages[:end])
        tokens = list(generate(model, prompt, 9, stop=tokenizer.stop_tokens, temperature=0.9, seed=4))
        assert tokenizer.decode(tokens) == messages[end]["content"]


def test_the_oldest_messages_are_forgotten_where_there_is_no_room(tmp_path: Path) -> None:
    folder = written(tmp_path, 60)
    tokenizer, decoder = wy.io.tokenizer(folder), CachedDecoder(pretrained(folder))
    lines = [f"weather {place}" for place in range(6)]
    messages = converse(decoder, tokenizer, lines, lambda piece: None, max_new_tokens=12)
    assert len(messages) == 12 and decoder.length <= 60
    # The last prompt has the last messages, and not the first ones.
    seen = tokenizer.decode(decoder.tokens[0])
    assert lines[-1] in seen and lines[0] not in seen
    with pytest.raises(ShapeError, match="leaves no room for an answer: the longest sequence has 60"):
        converse(decoder, tokenizer, ["weather " * 30], lambda piece: None)


def test_the_command_answers_until_the_end_of_its_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wyrm", "chat", str(written(tmp_path, 100)), "--tokens", "5", "--temperature", "0"]
    found = subprocess.run(
        [*command, "--storage", "int8"], input="Hello\nThere\n", capture_output=True, text=True, check=True
    )
    assert found.stdout.count("> ") >= 3
    missing = subprocess.run([*command[:4], str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert missing.returncode == 1 and "has no tokenizer.json" in missing.stderr


def test_an_adapter_answers_beside_weights_of_any_storage(tmp_path: Path) -> None:
    folder = written(tmp_path / "model", 100)
    adapter = wy.nn.LoRA(wy.nn.Decoder.from_pretrained(folder), rank=2, alpha=4.0, targets="*.qkv")
    for layer in adapter.layers.values():
        layer.up.set(np.random.default_rng(0).normal(size=layer.up.shape))
    adapter.save_pretrained(tmp_path / "adapter")
    tokens, logits = np.array([[5, 9, 3]]), dict[str, np.ndarray]()
    for storage in ("float32", "bfloat16"):
        model = pretrained(folder, storage, tmp_path / "adapter")
        logits[storage] = model.logits(wy.IndexInput(tokens)).forward()
    plain = pretrained(folder).logits(wy.IndexInput(tokens)).forward()
    size = np.abs(logits["float32"] - plain).max()
    assert np.abs(logits["float32"] - logits["bfloat16"]).max() < 0.1 * size
    command = [sys.executable, "-m", "wyrm", "chat", str(folder), "--adapter", str(tmp_path / "adapter"), "--tokens"]
    found = subprocess.run([*command, "3"], input="Hello\n", capture_output=True, text=True, check=True)
    assert found.stdout.count("> ") >= 2
    missing = subprocess.run([*command[:6], str(tmp_path)], capture_output=True, text=True, check=False)
    assert missing.returncode == 1 and "adapter_config.json" in missing.stderr


def test_models_without_chats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="this model continues texts, as wy"):
        check_chats(wy.io.tokenizer(folder_of(tmp_path)))
    wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=320, n_positions=20, n_embd=8, n_layer=1, n_head=2)).save_pretrained(
        tmp_path
    )
    assert isinstance(pretrained(tmp_path), wy.nn.GPT2)
    assert np.isfinite(pretrained(tmp_path).logits(wy.IndexInput(np.array([[1, 2]]))).forward()).all()
