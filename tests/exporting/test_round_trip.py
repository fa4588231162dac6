"""One training that begins in Python, goes on in C and in a browser, and comes home, is that of Python alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load, save_file

import wyrm as wy
from bench.browser import served
from tests.browser import OpenPage
from tests.exporting.loaded import loaded
from tests.exporting.models import classifier
from wyrm.exporting.exported import tensors_of

BATCH, SEED, EPOCHS = 8, 5, 2
IN_THE_BROWSER = f"""async values => {{
    const {{ columns, load }} = await import('/model.mjs');
    const model = await load(), data = columns(await (await fetch('/model_data.safetensors')).arrayBuffer());
    model.read(Uint8Array.from(values));
    const losses = [];
    for (let i = 0; i < {EPOCHS}; i++) losses.push(model.epoch(data, {{ batch: {BATCH}, seed: {SEED} }}).loss);
    return JSON.stringify([losses, Array.from(new Uint8Array(model.write()))]);
}}"""


def test_losses_state_and_counts_are_those_of_one_training(tmp_path: Path, open_page: OpenPage) -> None:
    alone, _, data = classifier()
    wanted = [alone.epoch(data, batch_size=BATCH, shuffle=True, seed=SEED)["loss"] for _ in range(4 * EPOCHS)]

    train, _, data = classifier()
    losses = [train.epoch(data, batch_size=BATCH, shuffle=True, seed=SEED)["loss"] for _ in range(EPOCHS)]

    in_c = loaded(train, batch_sizes=BATCH)
    assert in_c.start() == 0
    columns = {leaf.name: array for leaf, array in data.items()}
    for _ in range(EPOCHS):
        code, found = in_c.call("epoch", len(columns["x"]), **columns, batch=BATCH, shuffle=1, seed=SEED)
        assert code == 0
        losses.append(found["results"][0])

    page = wy.export(tmp_path, train=train, target="wasm32", batch_sizes=BATCH, columns=data)
    file = tmp_path / "from_c.safetensors"
    in_memory = {each.name: in_c.tensor(each.name).copy() for each in in_c.interface.tensors}
    save_file(in_memory, file, metadata_of(tmp_path / "model.safetensors"))
    with served(tmp_path) as address:
        opened = open_page(f"{address}index.html")
        found_there, values = json.loads(opened.evaluate(IN_THE_BROWSER, list(file.read_bytes())))
    losses += found_there

    home = tmp_path / "home.safetensors"
    home.write_bytes(bytes(values))
    page.load(home)
    counts = {name: array for name, array in load(bytes(values)).items() if array.dtype.kind == "i"}
    assert counts and all((array == tensors_of(page.built, train)[name]).all() for name, array in counts.items())
    losses += [train.epoch(data, batch_size=BATCH, shuffle=True, seed=SEED)["loss"] for _ in range(EPOCHS)]
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    ended, expected = tensors_of(page.built, train), tensors_of(page.built, alone)
    for name, array in ended.items():
        if array.dtype.kind == "i":
            assert (array == expected[name]).all(), name
        else:
            np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def metadata_of(file: Path) -> dict[str, str]:
    """Return the metadata of a file, which name the model and the version that may read it."""
    with safe_open(file, "numpy") as opened:
        found: dict[str, str] = opened.metadata() or {}
    return found
