"""Tokenizers: lossless round trips, GPT-2's ids, saving, and errors without the package."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import wyrm.data
from wyrm.data import Tokenizer
from wyrm.errors import DataError, DTypeError, IndexOutOfRange

STORIES = (
    "Once upon a time there was a little dragon.\nIt was not a large dragon, and it lived in a time of rain.\n" * 20
)
DATA = Path(os.environ.get("WYRM_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(STORIES, vocab_size=300)


@pytest.mark.parametrize("text", [STORIES, "", " ", "\n\n\t x", "Ærøskøbing 🐉 \x00 ไทย", "a<|endoftext|>b", "\ufeff"])
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int64 and ids.ndim == 1
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids.tolist()) == text


def test_training_learns_pairs_and_is_the_same_each_time(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 300
    ids = tokenizer.encode(STORIES)
    assert len(ids) < len(STORIES.encode()) / 2 and ids.max() < 300
    assert (Tokenizer.train(STORIES, vocab_size=300).encode(STORIES) == ids).all()


def test_special_tokens_are_one_token_each() -> None:
    tokenizer = Tokenizer.train(STORIES, vocab_size=300, special_tokens=["<user>", "<model>", "<user>"])
    assert tokenizer.encode("<user><model>").tolist() == [
        tokenizer.token_to_id("<user>"),
        tokenizer.token_to_id("<model>"),
    ]
    with pytest.raises(DataError, match=r"no token '<\|endoftext\|>' among the 300"):
        tokenizer.token_to_id("<|endoftext|>")
    plain = Tokenizer.train(STORIES, vocab_size=256, special_tokens=[])
    assert plain.vocab_size == 256 and len(plain.encode("ab<|endoftext|>")) == 15


def test_a_tokenizer_comes_back_from_its_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("an older one")
    tokenizer.save(path)
    again = Tokenizer.load(str(path))
    text = STORIES + "<|endoftext|>"
    assert again.encode(text).tolist() == tokenizer.encode(text).tolist()
    assert json.loads(path.read_text())["model"]["type"] == "BPE"
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("an older one")

    def replace(source: Path, target: Path) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(DataError, match=r"cannot write '.*tokenizer\.json': No space left on device"):
        tokenizer.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"] and path.read_text() == "an older one"
    with pytest.raises(DataError, match="cannot write"):
        tokenizer.save(tmp_path / "missing" / "tokenizer.json")


def test_a_link_that_somebody_has_put_there_is_not_written_through(tokenizer: Tokenizer, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    planted = tmp_path / f".tokenizer.json.{os.getpid()}.tmp"
    planted.symlink_to(victim)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert victim.read_text() == "precious" and planted.is_symlink()
    (tmp_path / "plain").touch()
    assert (tmp_path / "tokenizer.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.skipif(not (DATA / "gpt2-vocab.json").exists(), reason="the files of GPT-2's tokenizer are missing")
def test_gpt2_has_the_ids_that_are_known(tmp_path: Path) -> None:
    tokenizer = Tokenizer.gpt2(DATA / "gpt2-vocab.json", DATA / "gpt2-merges.txt")
    assert tokenizer.vocab_size == 50_257
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]
    assert tokenizer.encode("Once upon a time").tolist() == [7454, 2402, 257, 640]
    assert tokenizer.encode("<|endoftext|>").tolist() == [50_256]
    assert tokenizer.decode([15496, 995, 50_256]) == "Hello world<|endoftext|>"
    tokenizer.save(tmp_path / "gpt2.json")
    assert Tokenizer.load(tmp_path / "gpt2.json").encode("Hello<|endoftext|>").tolist() == [15496, 50_256]


def test_files_of_another_kind_are_errors(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    for content in (b"", b"{}", b"[1, 2]", b"\xff\xfe", b'{"model": 3}'):
        wrong.write_bytes(content)
        with pytest.raises(DataError, match=r"wrong\.json' holds no tokenizer"):
            Tokenizer.load(wrong)
    wrong.write_bytes(b"[1, 2]")
    with pytest.raises(DataError, match=r"wrong\.json' and '.*wrong\.json' are not a vocabulary and merges"):
        Tokenizer.gpt2(wrong, wrong)
    with pytest.raises(DataError, match=r"no such file: '.*merges\.txt'"):
        Tokenizer.gpt2(wrong, tmp_path / "merges.txt")
    with pytest.raises(DataError, match="cannot read"):
        Tokenizer.load(tmp_path)


def test_options_out_of_range() -> None:
    with pytest.raises(DataError, match="vocab_size must be an integer of at least 257, not 256"):
        Tokenizer.train(STORIES, vocab_size=256)
    with pytest.raises(DataError, match="the text to train a tokenizer on is empty"):
        Tokenizer.train("", vocab_size=300)
    wrong: Any
    for wrong in (b"bytes", ["a list"], None):
        with pytest.raises(DTypeError, match="must be a string"):
            Tokenizer.train(wrong, vocab_size=300)
    for wrong in ("<user>", [3]):
        with pytest.raises(DTypeError, match="special_tokens must be a sequence of strings"):
            Tokenizer.train(STORIES, vocab_size=300, special_tokens=wrong)


def test_texts_and_ids_of_another_kind(tokenizer: Tokenizer) -> None:
    with pytest.raises(DTypeError, match="encodes a string, not bytes"):
        tokenizer.encode(b"once")  # type: ignore[arg-type]  # the mistake that mypy finds
    for ids in ([[1, 2]], [1.5], 3):
        with pytest.raises(DTypeError, match="decodes integers in one axis"):
            tokenizer.decode(ids)  # type: ignore[arg-type]  # the mistake that mypy finds
    for wrong in (300, -1):
        with pytest.raises(IndexOutOfRange, match=f"the token at position 1 has the id {wrong}; expected 0 to 299"):
            tokenizer.decode([0, wrong])
    assert tokenizer.decode([]) == ""


def test_without_the_package_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    makers: list[Callable[[], Tokenizer]] = [
        lambda: Tokenizer.train(STORIES, vocab_size=300),
        lambda: Tokenizer.load(path),
        lambda: Tokenizer.gpt2(path, path),
    ]
    for make in makers:
        with pytest.raises(DataError, match=r"needs the package 'tokenizers'.*pip install 'wyrm-autodiff\[examples\]'"):
            make()


def test_the_class_stands_with_the_data() -> None:
    assert wyrm.data.Tokenizer is Tokenizer
