"""Matrices of low rank are trained beside narrow weights in exported code, which stay narrow in its memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wyrm as wy
from tests.exporting.in_wasm import in_wasm
from tests.exporting.loaded import loaded
from wyrm.exporting.building import build
from wyrm.exporting.c import FORMAT
from wyrm.exporting.exported import tensors_of
from wyrm.exporting.targets import target_named

ROWS, LENGTH, BATCH = 8, 8, 4
TEXTS = np.arange(ROWS * (LENGTH + 1)).reshape(ROWS, LENGTH + 1) % 7


class Rows(wy.Dim):
    """The rows of a batch."""


def adapted(storage: Any, width: int = 32) -> tuple[wy.nn.Decoder, wy.nn.LoRA, Any, dict[Any, np.ndarray]]:
    """Return a decoder of narrow weights, its adapter, the training of this, and its data."""
    config = wy.nn.DecoderConfig(
        vocab_size=64, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=True,
    )  # fmt: skip
    with wy.nn.seeded(0):
        model = wy.nn.Decoder(config)
        if storage is not None:
            model.quantize(storage)
        adapter = wy.nn.LoRA(model.train(), rank=4, alpha=32.0, dropout=0.1, seed=5)
    tokens = wy.IndexInput(dims=(Rows(), LENGTH), name="tokens")
    following = wy.IndexInput(dims=tokens.dims, name="following")
    # A larger epsilon: a first gradient of nearly 0 has a sign by rounding, of which Adam makes a whole step.
    optimizer = wy.optim.Adam(adapter.parameters(), learning_rate=0.005, epsilon=1e-2)
    train = wy.compile(model.loss(tokens, following), optimizer)
    model.eval()
    return model, adapter, train, {tokens: TEXTS[:, :-1], following: TEXTS[:, 1:]}


def epoch(export: Any) -> float:
    code, found = export.call(
        "epoch", ROWS, tokens=TEXTS[:, :-1], following=TEXTS[:, 1:], batch=BATCH, shuffle=1, seed=7
    )
    assert code == 0
    return float(found["results"][0])


@pytest.mark.parametrize("storage", ["int8", "bfloat16", "int4"])
@pytest.mark.parametrize("make", [loaded, in_wasm])
def test_an_adapter_is_trained_as_in_python_and_comes_home(storage: Any, make: Callable[..., Any]) -> None:
    model, _, train, data = adapted(storage)
    export = make(train, batch_sizes=BATCH, generate=model)
    held = {name: array for name, array in model.state_dict().items() if not name.endswith((".up", ".down"))}
    assert export.start() == 0
    losses = [epoch(export) for _ in range(6)]
    wanted = [float(train.epoch(data, batch_size=BATCH, shuffle=True, seed=7)) for _ in range(6)]
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    assert losses[-1] < losses[0] - 0.15
    for name, array in tensors_of(export.built, train).items():
        np.testing.assert_allclose(export.tensor(name), array, rtol=1e-3, atol=2e-5, err_msg=name)
    for name, array in held.items():  # the narrow numbers themselves, as they were
        assert export.tensor(name).dtype == array.dtype
        np.testing.assert_array_equal(export.tensor(name), array)
    # A model of another process takes over what the exported code has trained, and goes on as that does.
    again, *_ = adapted(storage)
    again.load_state_dict({name: export.tensor(name) for name in again.state_dict()})
    assert export.call("begin")[0] == 0
    found = [3]
    for _ in range(8):
        code, drawn = export.call("next", token=found[-1], temperature=0.0)
        assert code == 0
        found.append(int(drawn["next"]))
    assert found[1:] == list(wy.nn.generate(again, [3], 8, temperature=0.0))


def test_a_file_of_exported_code_has_the_names_of_state_dict(tmp_path: Path) -> None:
    model, adapter, train, _ = adapted("int8")
    exported = wy.export(tmp_path, train=train, generate=model, batch_sizes=BATCH)
    file = tmp_path / "model.safetensors"
    arrays = load_file(file)
    assert arrays.keys() > model.state_dict().keys()
    assert all(name.startswith(("optimizer/", "program/")) for name in arrays.keys() - model.state_dict().keys())
    for name, _ in adapter.named_parameters():
        arrays[name] = arrays[name] + np.float32(0.5)
    save_file(arrays, file, {"wyrm": FORMAT})
    exported.load(file)
    assert all((array == arrays[name]).all() for name, array in model.state_dict().items())


@pytest.mark.parametrize("storage, ratio", [("int8", 0.27), ("bfloat16", 0.51), ("int4", 0.17)])
def test_narrow_weights_are_narrow_in_memory_and_are_not_copied_by_steps(storage: Any, ratio: float) -> None:
    target = target_named("c", None, None)

    def built(storage: Any) -> tuple[int, int, int]:
        model, adapter, train, _ = adapted(storage, width=256)
        found = build("model", target, train, {}, BATCH, {}, None, model)
        weights = sum(array.nbytes for name, array in model.state_dict().items() if not name.endswith(("up", "down")))
        low = sum(each.value.nbytes for each in adapter.parameters())
        return found.interface.memory_bytes, weights, low

    (wide, exact, low), (narrow, weights, _) = built(None), built(storage)
    assert weights < ratio * exact
    # What a step copies is the adapter and its state, and nothing is widened.
    assert wide - narrow >= exact - weights
    assert narrow < weights + 8 * low + 2_000_000
