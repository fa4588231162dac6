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
from tests.pytorch import torch
from wyrm.errors import CheckpointError
from wyrm.io import files as shards
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
    from wyrm.io.hugging_face import _layout, _names_by_theirs

    layout = _layout(model.config)

    for theirs_name, ours in _names_by_theirs(model.config).items():
        want, have = slopes[layout.full(theirs_name)].grad.numpy(), np.asarray(named[ours].gradient)
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
    pytest.importorskip("torch")  # whose models are those of transformers
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
    config, default = hugging_face.read_config(GPT2Config, file), transformers.GPT2Config()
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
        (
            {"activation_function": "relu"},
            r"activation_function = 'relu'; GPT2 supports 'gelu_new' and 'gelu_pytorch_tanh' only",
        ),
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
    with pytest.raises(CheckpointError, match=r"model\.safetensors' is not a safetensors file, or is truncated"):
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

    class Unmade(GPT2):
        def __init__(self, *arguments: object, **keywords: object) -> None:
            made()

    monkeypatch.setattr(shards, "load_some", made)
    with pytest.raises(CheckpointError, match=r"by the configuration|too few for n_layer \d+"):
        hugging_face.from_pretrained(Unmade, GPT2Config, tmp_path)


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
        "layer_norm_epsilon": ["1e-5", [1e-5], True, None, -1e-5, 0, 1e30, float("nan"), float("inf"), 10**400],
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


def test_a_model_is_in_evaluation_mode_as_in_the_library(tmp_path: Path) -> None:
    GPT2(replace(small().config, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)).save_pretrained(tmp_path)
    model = GPT2.from_pretrained(tmp_path)
    assert not any(module.training for module in model.modules())
    tokens = wy.IndexInput(np.array([[1, 2, 3]]))
    logits = model.logits(tokens)
    np.testing.assert_allclose(logits.forward(), wy.compile(logits)(), rtol=1e-4, atol=1e-6)
    trained = model.train().logits(tokens)
    assert not np.array_equal(trained.forward(), trained.forward())


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "shards", "bfloat16 shards"])
def test_files_of_other_kinds_are_read_as_the_library_reads_them(tmp_path: Path, kind: str) -> None:
    other, (torch, transformers) = theirs(tied=True), map(pytest.importorskip, ("torch", "transformers"))
    other.config.activation_function = "gelu_pytorch_tanh"
    narrow = getattr(torch, kind.split()[0], torch.float32)
    other.to(narrow).save_pretrained(tmp_path, max_shard_size="10KB" if "shards" in kind else "1GB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1 or "shards" not in kind
    model = GPT2.from_pretrained(tmp_path)
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, dtype=torch.float32).eval()
    for name, tensor in again.named_parameters():
        ours = hugging_face._names_by_theirs(model.config)[name.removeprefix("transformer.")]
        np.testing.assert_array_equal(dict(model.named_parameters())[ours].value, tensor.detach().numpy(), err_msg=name)
    if kind == "bfloat16 shards":
        compare(model, again)


def in_shards(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write a small model in two shards; return the path of its index, and the shard of each array."""
    small().save_pretrained(folder)
    arrays = wy.io.load_arrays(folder / "model.safetensors").arrays
    (folder / "model.safetensors").unlink()
    listed: dict[str, str] = {}
    for number, names in enumerate((list(arrays)[:5], list(arrays)[5:])):
        shard = f"model-0000{number + 1}-of-00002.safetensors"
        wy.io.save_arrays(folder / shard, {name: arrays[name] for name in names})
        listed |= dict.fromkeys(names, shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": listed}))
    return index, listed


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    index, listed = in_shards(tmp_path)
    GPT2.from_pretrained(tmp_path)
    first, second = sorted(set(listed.values()))
    name = next(iter(listed))

    def refused(reason: str, weight_map: Any) -> None:
        index.write_text(weight_map if isinstance(weight_map, str) else json.dumps({"weight_map": weight_map}))
        with pytest.raises(CheckpointError, match=reason):
            GPT2.from_pretrained(tmp_path)

    outside = tmp_path.parent / "outside.safetensors"
    (tmp_path / second).rename(outside)
    refused(f"no such file: '.*{second}'", listed)
    for path in (f"../{outside.name}", str(outside), f"..\\{outside.name}", "C:x.safetensors", "..", "", "config.json"):
        refused("must be the name of a safetensors file beside it, not", listed | {name: path})
    others: list[Any] = [3, None, [second], {}]
    for shard in others:
        refused("must be the name of a safetensors file beside it, not", listed | {name: shard})
    outside.rename(tmp_path / second)
    refused(f"{name}: in '{first}', by the index in '{second}'", listed | {name: second})
    refused(f"more: not in '{first}'", listed | {"more": first})
    refused(f"{name}: in '{first}', not in the index", {key: shard for key, shard in listed.items() if key != name})
    refused("it has 'b' twice", '{"weight_map": {"a": "x.safetensors", "b": "y", "b": "z"}}')
    for text in ("[]", "{}", "null", '{"weight_map": []}', '{"weight_map": {}}'):
        refused("it has no 'weight_map'", text)
    for text in ("", "{", "[" * 10**5, "\udc80"):
        index.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(CheckpointError, match=r"cannot read '.*index\.json'"):
            GPT2.from_pretrained(tmp_path)
    twice = wy.io.load_arrays(tmp_path / first).arrays
    wy.io.save_arrays(tmp_path / second, wy.io.load_arrays(tmp_path / second).arrays | {name: twice[name]})
    refused(f"does not fit its shards:\n  {name}: in '{first}' and in '{second}'", listed)
    index.unlink()
    with pytest.raises(CheckpointError, match=r"no such file: '.*model\.safetensors'"):
        GPT2.from_pretrained(tmp_path)


def test_a_whole_file_counts_before_an_index(tmp_path: Path) -> None:
    index, _ = in_shards(tmp_path)
    index.write_text("{")
    small().save_pretrained(tmp_path)
    GPT2.from_pretrained(tmp_path)


def test_an_epsilon_that_divides_by_zero_or_hides_the_numbers_is_refused() -> None:
    for epsilon in (0, 0.0, 1e-50, 1.5, 1e30):
        with pytest.raises(ValueError, match=r"layer_norm_epsilon must be a number in \[1e-30, 1\]"):
            GPT2Config(layer_norm_epsilon=epsilon)
    assert GPT2Config(layer_norm_epsilon=1e-12).layer_norm_epsilon == 1e-12


def test_arrays_in_shards_are_read_by_their_index(tmp_path: Path) -> None:
    index, listed = in_shards(tmp_path)
    arrays, metadata = wy.io.load_arrays(index)
    assert arrays.keys() == listed.keys() and metadata == {}
    parameters = {name: wy.Parameter(np.zeros_like(array)) for name, array in arrays.items()}
    for path in (index, tmp_path / "model.safetensors"):
        wy.io.load(parameters, path)
        for name, parameter in parameters.items():
            np.testing.assert_array_equal(parameter.value, arrays[name])
            parameter.set(0.0 * parameter.value)
    with pytest.raises(CheckpointError, match=r"cannot read '.*other\.index\.json'"):
        wy.io.load_arrays(tmp_path / "other.index.json")
