"""The tokenizer of a page gives the tokens of the package `tokenizers`, and their texts."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as package
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

import wyrm as wy
from wyrm.errors import DTypeError, OptionError
from wyrm.exporting.names import STATIC
from wyrm.exporting.tokenizer import table_of
from wyrm.io.tokenizers import tokenizer as pretrained

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
TRAINING = (
    "Once upon a time there was a little girl. She didn't know it's 1984, and they'll see. The dogs WE'RE running;\n\n"
    "\tnaïve façade über straße, 你好 世界, привет мир.  Two  spaces   and more. E=mc^2 "
) * 3
LLAMA3 = "|".join(
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
    ]
)  # fmt: skip
BYTES = pre_tokenizers.ByteLevel.alphabet()


def _bytes(steps: list[Any], *, divides: bool = True) -> Any:
    found = package.Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=divides)
    found.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>", "<|im_start|>"], initial_alphabet=BYTES, show_progress=False
    )
    found.train_from_iterator([TRAINING], trainer)
    return found


def gpt2() -> Any:
    return _bytes([])


def smollm() -> Any:
    return _bytes([pre_tokenizers.Digits(individual_digits=True)])


def llama3() -> Any:
    found = _bytes([pre_tokenizers.Split(Regex(LLAMA3), "isolated")], divides=False)
    contents = json.loads(found.to_str())
    contents["model"]["ignore_merges"] = True
    # A token that no merges make.
    contents["model"]["vocab"]["zebra"] = 400
    found = package.Tokenizer.from_str(json.dumps(contents))
    found.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A <|endoftext|>", special_tokens=[("<|im_start|>", 1), ("<|endoftext|>", 0)]
    )
    return found


def qwen() -> Any:
    found = _bytes([pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated")], divides=False)
    found.normalizer = normalizers.NFC()
    return found


def _spaces(fallback: bool) -> Any:
    found = package.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    found.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    found.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=tokens, show_progress=False)
    found.train_from_iterator([TRAINING.replace("世", "")], trainer)
    contents = json.loads(found.to_str())
    contents["pre_tokenizer"] = None
    contents["added_tokens"] = contents["added_tokens"][:3]
    found = package.Tokenizer.from_str(json.dumps(contents))
    found.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    found.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return found


def llama2() -> Any:
    return _spaces(fallback=True)


def unknown() -> Any:
    return _spaces(fallback=False)


def metaspace() -> Any:
    contents = json.loads(_spaces(fallback=True).to_str())
    contents["normalizer"] = None
    contents["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    return package.Tokenizer.from_str(json.dumps(contents))


FAMILIES = {each.__name__: each for each in (gpt2, smollm, llama3, qwen, llama2, unknown, metaspace)}


def texts() -> list[str]:
    """Return texts of all kinds, and random ones of letters, spaces and whatever Unicode has."""
    random = np.random.default_rng(0)
    letters = list("abcDE'sStT  12\n\t.,é你🙂️'\u017f\u0301e\u00a0\u0085\ufeff▁<>|")
    found = [
        "", " ", "a", " a  b ", "Once upon a time, there was", "they'LL WE'Re don't it'S", "</s> x<s>", "e\u0301 é",
        "<|endoftext|>a<|im_start|> b", "zebra zebras", "🙂👩‍👩‍👧 naïve", "▁a▁▁b", "x" * 50, "\r\n\r\n a\n\n",
        "1234567 89", "<0x41>", TRAINING[:200],
    ]  # fmt: skip
    found += ["".join(random.choice(letters, random.integers(1, 30))) for _ in range(300)]
    points = random.integers(1, 0x2FFFF, (100, 12))
    return found + ["".join(chr(each) for each in row if not 0xD800 <= each < 0xE000) for row in points]


class Made:
    """A tokenizer of the package with what an export asks."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.stop_tokens = inner, (0,)

    def to_json(self) -> str:
        return str(self.inner.to_str())

    def encode(self, text: str) -> Any:
        return self.inner.encode(text).ids


@needs_node
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_the_package(family: str, tmp_path: Path) -> None:
    made = Made(FAMILIES[family]())
    given = texts()
    table = table_of(made, 1000)
    (tmp_path / "given.json").write_text(json.dumps({"table": table, "texts": given}), encoding="utf-8")
    script = str(Path(__file__).with_name("tokenize.mjs"))
    command = ["node", script, str(STATIC / "tokenizer.mjs"), str(tmp_path / "given.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for text, (tokens, whole, decoded, pieces) in zip(given, json.loads(done.stdout), strict=True):
        wanted = made.inner.encode(text, add_special_tokens=False).ids
        assert tokens == wanted, repr(text)
        ends = table["ends"]
        assert [*whole, *ends] == (made.encode(text) if family not in ("gpt2", "smollm", "qwen") else [0, *wanted])
        assert decoded == made.inner.decode(wanted), repr(text)
        assert decoded in ("".join(pieces), "".join(pieces)[1:])


def test_tokenizers_that_a_page_does_not_know(tmp_path: Path) -> None:
    inner = gpt2()
    inner.normalizer = normalizers.Lowercase()
    with pytest.raises(OptionError, match=r"the tokenizer has the normalizer .*Lowercase.* export without tokenizer"):
        table_of(Made(inner), 1000)
    with pytest.raises(OptionError, match=r"the tokenizer has \d+ tokens, and the model 31"):
        table_of(Made(gpt2()), 31)
    with pytest.raises(OptionError, match="the model WordPiece"):
        table_of(Made(package.Tokenizer(models.WordPiece({"a": 0}, unk_token="a"))), 31)
    with pytest.raises(DTypeError, match=r"tokenizer takes a wy\.data\.Tokenizer"):
        table_of("folder", 31)  # type: ignore[arg-type]  # on purpose
    own = wy.data.Tokenizer.train(TRAINING, 300)
    own.save(tmp_path / "tokenizer.json")
    assert table_of(pretrained(tmp_path), 300)["pieces"] == table_of(own, 300)["pieces"]
