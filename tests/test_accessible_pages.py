"""Pages that wyrm writes and serves, as axe sees them: light, dark and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import wyrm as wy
from bench.browser import served
from tests.accessibility import findings, script
from tests.browser import OpenPage
from tests.watch.test_watch_page import Served

pytestmark = pytest.mark.skipif(script() is None, reason="axe-playwright-python is not installed")


class Batch(wy.Dim): ...


class Model:
    """A small classifier, its training and data."""

    def __init__(self) -> None:
        wy.nn.seed(0)
        x: Any = wy.Input(dims=(Batch(), 8), name="x")
        self.labels: Any = wy.IndexInput(dims=(Batch(),), name="labels")
        model: Any = wy.nn.Linear(8, 16) >> wy.nn.LayerNorm(16) >> wy.nn.gelu >> wy.nn.Linear(16, 3)
        self.logits = model(x)
        self.loss = self.logits.cross_entropy(self.labels)
        self.train = wy.compile(self.loss, wy.optim.Adam(self.loss.parameters(), 1e-2))
        rows = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
        self.data = {x: rows, self.labels: rows[:, :3].argmax(axis=1)}


@contextmanager
def graph(model: Model, folder: Path) -> Iterator[Path]:
    yield wy.view.page(model.loss, folder / "graph.html")


@contextmanager
def live(model: Model, folder: Path) -> Iterator[Path]:
    yield wy.view.page(model.logits, folder / "live.html", live=True)


@contextmanager
def profile(model: Model, folder: Path) -> Iterator[Path]:
    yield model.train.profile(model.data, batch_size=16, steps=4, memory=True).page(folder / "profile.html")


@contextmanager
def watched(model: Model, folder: Path) -> Iterator[str]:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    for name in ("first", "second"):
        wy.train.fit(
            model.train, model.data, epochs=8, batch_size=16, validation=model.data, watch=folder / "runs" / name,
            config={"rate": 0.01},
        )  # fmt: skip
    server = Served(folder / "runs")
    try:
        yield server.address
    finally:
        server.stop()


@contextmanager
def exported(model: Model, folder: Path) -> Iterator[str]:
    try:
        wy.export(folder / "exported", train=model.train, target="wasm32", columns=model.data)
    except wy.errors.Unavailable as error:
        pytest.skip(str(error))
    with served(folder / "exported") as address:
        yield f"{address}index.html"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
@pytest.mark.parametrize("page", [graph, live, profile, watched, exported])
def test_axe_finds_nothing(
    page: Callable[[Model, Path], Any],
    scheme: Literal["light", "dark"],
    width: int,
    open_page: OpenPage,
    tmp_path: Path,
) -> None:
    with page(Model(), tmp_path) as address:
        opened = open_page(address, color_scheme=scheme, width=width)
        if page is watched:
            opened.locator("section.chart").first.wait_for()
        found = findings(opened)
        opened.close()  # before its server ends, which the page would report
    assert found == []
