"""GPT-2 in the layout of the Hugging Face library, read and written, against that library."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError
from wyrm.io import hugging_face
from wyrm.nn import GPT2, GPT2Config

SIZES: dict[str, Any] = {"vocab_size": 61, "n_positions": 12, "n_layer": 2, "n_head": 4, "n_embd": 16}


def theirs(tied: bool) -> Any:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        **SIZES, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, tie_word_embeddings=tied, bos_token_id=60,
        eos_token_id=60,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    for parameter in model.parameters():  # biases and norms too are other than their first values
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model.eval()


def compare(model: GPT2, other: Any) -> None:
    """Logits within 1e-4, the loss and every gradient within 1e-3."""
    import torch

    random = np.random.default_rng(0)
    read, following = random.integers(0, 61, (3, 10)), random.integers(0, 61, (3, 10))
    tokens, wanted = wy.IndexInput(read), wy.IndexInput(following)
    logits = other(torch.from_numpy(read)).logits
    np.testing.assert_allclose(model.logits(tokens).forward(), logits.detach().numpy(), atol=1e-4)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(following).flatten())
    loss.backward()
    mine = model.loss(tokens, wanted)
    assert float(mine.forward()) == pytest.approx(loss.item(), rel=1e-5)
    mine.backward()
    slopes = dict(other.named_parameters())
    named = dict(model.named_parameters())
    from wyrm.io.hugging_face import _full, _names

    for theirs_name, ours in _names(model.config).items():
        want, have = slopes[_full(theirs_name)].grad.numpy(), np.asarray(named[ours].gradient)
        assert np.abs(have - want).max() <= 1e-3 * np.abs(want).max() + 1e-7, theirs_name


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_of_theirs_gives_the_same_here(tmp_path: Path, tied: bool) -> None:
    other = theirs(tied)
    other.save_pretrained(tmp_path)
    model = GPT2.from_pretrained(tmp_path)
    assert model.config == GPT2Config(
        vocab_size=61, n_positions=12, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        tie_word_embeddings=tied,
    )  # fmt: skip
    compare(model, other)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_of_ours_gives_the_same_there(tmp_path: Path, tied: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = GPT2Config(
        vocab_size=61, n_positions=12, n_embd=16, n_layer=2, n_head=4, n_inner=24, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, tie_word_embeddings=tied,
    )  # fmt: skip
    wy.nn.seed(3)
    model = GPT2(config)
    model.save_pretrained(tmp_path)
    compare(model, transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval())
    again = GPT2.from_pretrained(tmp_path)
    assert again.config == config
    for name, parameter in again.named_parameters():
        np.testing.assert_array_equal(parameter.value, dict(model.named_parameters())[name].value)


def small() -> GPT2:
    return GPT2(
        GPT2Config(
            vocab_size=11, n_positions=4, n_embd=4, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
    )


def test_a_model_without_biases_is_written_with_zeros(tmp_path: Path) -> None:
    model = GPT2(
        GPT2Config(
            vocab_size=11, n_positions=4, n_embd=4, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bias=False,
        )
    )  # fmt: skip
    model.save_pretrained(tmp_path)
    read = wy.IndexInput(np.array([[1, 2, 3]]))
    expected = model.logits(read).forward()
    np.testing.assert_allclose(GPT2.from_pretrained(tmp_path).logits(read).forward(), expected, atol=1e-6)


def test_each_rate_of_dropout_is_kept(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    rates = {"resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3}
    config = replace(small().config, **rates)  # type: ignore[arg-type]  # floats all of them
    GPT2(config).save_pretrained(tmp_path)
    written = transformers.GPT2Config.from_pretrained(tmp_path)
    assert {name: getattr(written, name) for name in rates} == rates
    model = GPT2.from_pretrained(tmp_path)
    assert model.config == config
    (block,) = model.blocks
    assert (block.dropout.rate, model.dropout.rate, block.attention.dropout.rate) == (0.1, 0.2, 0.3)


def test_a_missing_field_has_the_default_of_the_library(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "gpt2"}')
    config, default = hugging_face.read_config(file), transformers.GPT2Config()
    assert config == GPT2Config()
    for field in fields(GPT2Config):
        assert field.name == "bias" or getattr(config, field.name) == getattr(default, field.name), field.name


def change(folder: Path, **options: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | options))


def test_what_is_wrong_with_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no such file: '.*config.json'"):
        GPT2.from_pretrained(tmp_path)
    small().save_pretrained(tmp_path)
    for options, reason in (
        ({"model_type": "bert"}, r"a model of type 'bert', not 'gpt2'"),
        ({"activation_function": "relu"}, r"activation_function = 'relu'; GPT2 supports 'gelu_new' only"),
        ({"n_head": 3}, r"n_embd 4 is not divisible by n_head 3"),
        ({"n_layer": 2}, r"missing: h\.1\.ln_1\.weight"),
        ({"n_layer": 1, "vocab_size": 12}, r"wte\.weight: \(11, 4\) in the file, \(12, 4\) by the configuration"),
    ):
        small().save_pretrained(tmp_path)
        change(tmp_path, **options)
        with pytest.raises(CheckpointError, match=reason):
            GPT2.from_pretrained(tmp_path)
    small().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=r"model\.safetensors' is no safetensors file, or truncated"):
        GPT2.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"cannot read '.*config\.json'"):
        GPT2.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 10**12}, {"n_positions": 10**12}, {"n_layer": 10**12}, {"n_inner": 10**12}, {"n_layer": 10**30},
        {"n_embd": 4 * 10**12}, {"n_embd": 10**12, "n_head": 10**12}, {"vocab_size": 10**12, "n_layer": 10**12},
    ],
)  # fmt: skip
def test_sizes_that_the_file_has_not_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    small().save_pretrained(tmp_path)
    change(tmp_path, **options)

    def made(*arguments: object, **keywords: object) -> None:
        pytest.fail("something was made before it was looked at")

    monkeypatch.setattr(hugging_face, "GPT2", made)
    monkeypatch.setattr(hugging_face, "load_some", made)
    with pytest.raises(CheckpointError, match=r"by the configuration|too few for n_layer \d+"):
        hugging_face.from_pretrained(tmp_path)


def test_a_file_of_huge_arrays_that_take_no_room_is_refused(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    count = 10**12
    text = json.dumps({"wte.weight": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(file, 8 + len(text) + 4 * count)
    with pytest.raises(CheckpointError, match=r"wte\.weight: \(1000000000000,\) in the file, \(11, 4\)"):
        GPT2.from_pretrained(tmp_path)
    model = wy.nn.Linear(2, 3)
    with pytest.raises(CheckpointError, match=r"extra in the file: wte\.weight"):
        model.load(file)
    with pytest.raises(CheckpointError, match=r"shape|\(1000000000000,\) float32 in the file, \(3,\) float32 here"):
        wy.io.load({"wte.weight": wy.Parameter(np.ones(3, np.float32))}, file)


RATES = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
WRONG: list[Any] = ["1", [1], {"a": 1}, 1.5, True, -1, 0, None, 10**400]


def test_a_configuration_of_wrong_types_is_refused(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    whole = (tmp_path / "config.json").read_text()
    for name in ("vocab_size", "n_positions", "n_layer", "n_head", "n_embd", "n_inner"):
        for wrong in [value for value in WRONG if not (name == "n_inner" and value is None)]:
            change(tmp_path, **{name: wrong})
            with pytest.raises(CheckpointError):
                GPT2.from_pretrained(tmp_path)
            (tmp_path / "config.json").write_text(whole)
    wrongs: dict[str, list[Any]] = {
        **{name: ["0.1", [0.1], {}, True, None, -0.1, 1.0, float("nan"), float("inf"), 10**400] for name in RATES},
        "layer_norm_epsilon": ["1e-5", [1e-5], True, None, -1e-5, float("nan"), float("inf"), 10**400],
        "tie_word_embeddings": ["yes", 1, 0, None, []],
        "activation_function": [["gelu_new"], 3, {}], "model_type": [["gpt2"], 3], "scale_attn_weights": ["yes", []],
    }  # fmt: skip
    for name, values in wrongs.items():
        for wrong in values:
            change(tmp_path, **{name: wrong})
            with pytest.raises(CheckpointError, match=r"config\.json'"):
                GPT2.from_pretrained(tmp_path)
            (tmp_path / "config.json").write_text(whole)
    for text in ("[" * 10**5, "1" * 5000, "[]", '"gpt2"', "\ud800".encode("utf-16", "surrogatepass").decode("latin-1")):
        (tmp_path / "config.json").write_text(text, encoding="latin-1")
        with pytest.raises(CheckpointError, match=r"config\.json'"):
            GPT2.from_pretrained(tmp_path)


def test_a_repeated_head_counts_only_where_it_is_the_same(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    arrays = wy.io.load_arrays(file).arrays
    table = arrays["transformer.wte.weight"]
    wy.io.save_arrays(file, arrays | {"lm_head.weight": table})
    np.testing.assert_array_equal(GPT2.from_pretrained(tmp_path).tokens.weight.value, table)
    for more, reason in (
        ({"lm_head.weight": table + 1.0}, "differs from wte.weight"),
        ({"lm_head.weight": table[:2]}, r"lm_head\.weight: \(2, 4\) in the file"),
        ({"wte.weight": table}, r"stored with and without 'transformer\.': wte\.weight"),
        ({"h.0.ln_1.weight": table[0].astype(np.int64)}, "stored with and without"),
    ):
        wy.io.save_arrays(file, arrays | more)
        with pytest.raises(CheckpointError, match=reason):
            GPT2.from_pretrained(tmp_path)
    wy.io.save_arrays(file, arrays | {"transformer.ln_f.weight": np.ones(4, np.int64)})
    with pytest.raises(CheckpointError, match=r"ln_f\.weight: holds int64"):
        GPT2.from_pretrained(tmp_path)
    wy.io.save_arrays(file, arrays | {"transformer.ln_f.weight": np.full(4, np.nan, np.float32)})
    with pytest.raises(CheckpointError, match=r"ln_f\.weight: a NaN or an infinity in the file"):
        GPT2.from_pretrained(tmp_path)
