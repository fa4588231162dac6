"""The pictures of the README: the page of a graph and the page of a training, light and dark, from Chromium.

`python -m building.pictures` in the folder `docs` draws them anew, into `static`; it needs playwright and Chromium.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import wyrm as wy

STATIC = Path(__file__).parents[1] / "static"
_SIZE = {"width": 1200, "height": 700}


class Batch(wy.Dim):
    """The rows of a batch."""


class Pixels(wy.Dim):
    """The pixels of an image."""


class Hidden(wy.Dim):
    """The units of the hidden layer."""


class Classes(wy.Dim):
    """The digits."""


class Classifier(wy.nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        self.hidden = wy.nn.Linear(Pixels(64), Hidden(32))
        self.output = wy.nn.Linear(Hidden(32), Classes(10))

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[Batch, Classes]:
        """Return the logits."""
        return self.output(self.hidden(x).relu())


def train(folder: Path) -> None:
    """Write the page of the graph and the records of two trainings to a folder."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    data = wy.data.Dataset(images=(digits.data / 16.0).astype(np.float32), labels=digits.target.astype(np.int64))
    training, held_out = wy.data.train_test_split(data, 0.2)
    batch = Batch()
    images = wy.Input(dims=(batch, Pixels(64)), name="images")
    labels = wy.IndexInput(dims=(batch,), name="labels")
    for name, rate in (("adam-0.003", 0.003), ("adam-0.0005", 0.0005)):
        wy.nn.seed(0)
        logits = Classifier()(images)
        loss = logits.cross_entropy(labels)
        right = (logits.argmax(axis=-1) == labels).astype(np.float32).mean()
        program = wy.compile(loss, wy.optim.Adam(loss.parameters(), rate), metrics={"accuracy": right})
        run = str(folder / "runs" / name)
        wy.train.fit(program, training, epochs=30, batch_size=32, validation=held_out, watch=run, seed=0)
        wy.view.page(loss, folder / "graph.html")


def shots(addresses: dict[str, str]) -> None:
    """Write a light and a dark picture of each page."""
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, address in addresses.items():
            for scheme in schemes:
                page = browser.new_page(viewport=_SIZE, color_scheme=scheme)  # type: ignore[arg-type]  # a TypedDict
                page.goto(address)
                page.wait_for_timeout(2500)
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                picture.save(STATIC / f"{name}-{scheme}.webp", quality=70, method=6)
        browser.close()


def main() -> None:
    """Train, serve, and draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder)
        command = [sys.executable, "-m", "wyrm", "watch", str(folder / "runs"), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            shots({"graph": (folder / "graph.html").as_uri(), "training": address})
            server.terminate()


if __name__ == "__main__":
    main()
