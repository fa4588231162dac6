"""Tokenizers and chats of pretrained models: as transformers reads them from the same folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, DTypeError, IndexOutOfRange

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

# In the style of those that models come with.
TEMPLATES = sorted((Path(__file__).parent / "chat_templates").glob("*.jinja"))
SPECIAL = [
    "<s>", "</s>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|im_start|>", "<|im_end|>",
    "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]",
]  # fmt: skip
TEXT = "The user asks: what is the weather? The assistant says: sunny. Größe, 東京, 🙂." * 4
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"city": {"type": "string", "é": [1, 2]}}}}]
QUESTION = {"role": "user", "content": "  What is <b>1 & 1</b> in 東京?\n"}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\n Two. "}
SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "東京"}}}]}
FOUND = {"role": "tool", "name": "weather", "content": "sunny"}
CHATS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "question": ([QUESTION], {}),
    "answered": ([QUESTION, ANSWER], {"reply": False}),
    "system": ([SYSTEM, QUESTION, ANSWER, QUESTION], {}),
    "tools": ([SYSTEM, QUESTION], {"tools": TOOLS}),
    "called": ([QUESTION, CALL, FOUND], {"tools": TOOLS}),
    "variables": ([QUESTION], {"enable_thinking": False, "date_string": "1 Jan 2025"}),
}


def folder_of(path: Path, **options: Any) -> Path:
    """Write a small tokenizer of the package tokenizers, which begins a text with `<s>`."""
    import tokenizers

    wy.data.Tokenizer.train(TEXT, 320, SPECIAL).save(path / "tokenizer.json")
    inner: Any = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    inner.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    inner.save(str(path / "tokenizer.json"))
    contents = {
        "bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>", "special": True},
        "tokenizer_class": "PreTrainedTokenizerFast", **options,
    }  # fmt: skip
    (path / "tokenizer_config.json").write_text(json.dumps(contents), encoding="utf-8")
    return path


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_chats_are_those_of_transformers(template: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = folder_of(tmp_path, chat_template=template.read_text(encoding="utf-8"))
    found, theirs = wy.io.tokenizer(folder), transformers.PreTrainedTokenizerFast.from_pretrained(str(folder))
    rendered = 0
    for messages, options in CHATS.values():
        given = dict(options)
        given["add_generation_prompt"] = given.pop("reply", True)
        try:
            wanted = theirs.apply_chat_template(messages, tokenize=False, **given)
        except Exception:  # a template that has no such messages
            with pytest.raises(CheckpointError, match="the template of chats refuses the messages"):
                found.chat_text(messages, **options)
            continue
        assert found.chat_text(messages, **options) == wanted
        tokens = theirs.apply_chat_template(messages, tokenize=True, return_dict=False, **given)
        assert found.chat(messages, **options).tolist() == list(tokens)
        rendered += 1
    assert rendered >= 3


def test_texts_become_the_tokens_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = folder_of(tmp_path)
    found, theirs = wy.io.tokenizer(folder), transformers.PreTrainedTokenizerFast.from_pretrained(str(folder))
    for text in ("", "weather", " Größe 🙂", "<|im_start|>user\nHi<|im_end|>"):
        tokens = found.encode(text)
        assert tokens.tolist() == theirs(text)["input_ids"]
        assert found.encode(text, special=False).tolist() == theirs(text, add_special_tokens=False)["input_ids"]
        for special in (True, False):
            assert found.decode(tokens, special=special) == theirs.decode(tokens, skip_special_tokens=not special)
    assert found.stop_tokens == (1,) and found.token_to_id("<|im_end|>") == 6
    assert found.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"} and found.vocab_size == len(theirs)
    (folder / "generation_config.json").write_text('{"eos_token_id": [6, 2, 999999]}')
    assert wy.io.tokenizer(folder).stop_tokens == (6, 2, 1)


def test_templates_stand_in_several_places(tmp_path: Path) -> None:
    listed = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "with {{ tools | length }}"}]
    found = wy.io.tokenizer(folder_of(tmp_path, chat_template=listed))
    assert found.chat_text([QUESTION]) == "plain" and found.chat_text([QUESTION], tools=TOOLS) == "with 1"
    assert found.chat_text([QUESTION], template="tool_use", tools=[]) == "with 0"
    assert found.chat_text([QUESTION], template="{{ messages[0].role }}") == "user"
    (tmp_path / "chat_template.jinja").write_text("of a file", encoding="utf-8")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("more", encoding="utf-8")
    found = wy.io.tokenizer(tmp_path)
    assert found.chat_text([QUESTION]) == "of a file" and found.chat_text([QUESTION], template="rag") == "more"
    assert set(found.templates) == {"default", "tool_use", "rag"}


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ cycler.__init__.__globals__ }}",
        "{{ undefined.x }}", "{% for i in range(10000000) %}{% endfor %}", "{% include 'file' %}",
        "{{ 1 / 0 }}", "{% if %}", "{{ raise_exception('no') }}",
    ],
)  # fmt: skip
def test_templates_reach_nothing_else(template: str, tmp_path: Path) -> None:
    found = wy.io.tokenizer(folder_of(tmp_path))
    with pytest.raises(CheckpointError, match="the template of chats refuses the messages"):
        found.chat_text([QUESTION], template=template)


def test_errors_say_what_is_wrong(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(CheckpointError, match=r"has no tokenizer.json and no tokenizer.model"):
        wy.io.tokenizer(tmp_path)
    found = wy.io.tokenizer(folder_of(tmp_path))
    with pytest.raises(CheckpointError, match="has no template of chats: give one"):
        found.chat([QUESTION])
    with pytest.raises(CheckpointError, match="has no token 'none'"):
        found.token_to_id("none")
    with pytest.raises(DTypeError, match="a tokenizer encodes a string, not bytes"):
        found.encode(cast(Any, b"text"))
    with pytest.raises(IndexOutOfRange, match=r"a token is 100000; it must be in 0\.\."):
        found.decode([100000])
    with pytest.raises(DTypeError, match="decodes integers in one axis"):
        found.decode(cast(Any, [[1]]))
    with pytest.raises(DTypeError, match="a chat is plain data"):
        found.chat_text([{"role": "user", "content": object()}], template="x")
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": [{"name": 3}]}')
    with pytest.raises(CheckpointError, match="has a chat_template that is no text"):
        wy.io.tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": {"id": 3}}')
    with pytest.raises(CheckpointError, match="which has no text"):
        wy.io.tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match="holds no tokenizer"):
        wy.io.tokenizer(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'wyrm-autodiff\[chat\]', or pip install tokenizers"):
        wy.io.tokenizer(tmp_path)


@pytest.mark.parametrize("legacy", [True, False])
def test_sentencepiece_where_there_is_no_other_tokenizer(legacy: bool, tmp_path: Path) -> None:
    package = pytest.importorskip("sentencepiece")
    (tmp_path / "text.txt").write_text(TEXT * 5, encoding="utf-8")
    package.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "tokenizer"), vocab_size=320, byte_fallback=True,
        character_coverage=0.99, model_type="bpe", minloglevel=2,
    )  # fmt: skip
    pieces: Any = package.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    options = {
        "bos_token": "<s>", "eos_token": "</s>", "legacy": legacy, "add_bos_token": True,
        "added_tokens_decoder": {"0": {"content": "<unk>"}, "1": {"content": "<s>"}, "320": {"content": "[INST]"}},
    }  # fmt: skip
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    found = wy.io.tokenizer(tmp_path)
    assert found.vocab_size == 321 and found.stop_tokens == (2,) and found.token_to_id("[INST]") == 320
    text = "The weather is Größe 🙂"
    assert found.encode(text).tolist() == [1, *pieces.encode(text)]
    assert found.decode(found.encode(text)) == text
    tokens = found.encode(f"<s>[INST]{text}</s>", special=False).tolist()
    assert tokens[:2] == [1, 320] and tokens[-1] == 2
    assert pieces.decode(tokens[2:-1]) == text
    assert (tokens[2:-1] == pieces.encode(text)) is legacy
    assert found.decode(tokens, special=True) == f"<s>[INST]{text}</s>"
    assert found.decode(tokens) == text
