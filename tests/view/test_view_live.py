"""The live page of a graph: it computes values in the browser, by WebAssembly."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import wyrm as wy
from tests.browser import OpenPage
from wyrm.errors import OptionError, ShapeError
from wyrm.exporting import wasm
from wyrm.view import live

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Classifier:
    """A model that takes 49 numbers, which the page shows as a picture of 7 by 7, a scale and a label."""

    def __init__(self) -> None:
        self.x = wy.Input(dims=(Batch(), 49), name="x")
        self.scale = wy.Input(dims=(), name="scale")
        self.label = wy.IndexInput(dims=(self.x.dims[0],), name="label")
        self.scale.set(0.5)
        self.output = wy.nn.Linear(49, 3)
        self.loss = (self.output(self.x) * self.scale).cross_entropy(self.label)
        self.bias = next(each for each in self.output.parameters() if each.name == "bias")

    def set(self, x: np.ndarray, scale: float, label: int) -> None:
        self.x.set(x[None])
        self.scale.set(scale)
        self.label.set([label])


@pytest.fixture(scope="module")
def model() -> Classifier:
    return Classifier()


@pytest.fixture(scope="module")
def path(model: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wy.view.page(model.loss, tmp_path_factory.mktemp("live") / "model.html", live=True)


def value(page: Page, part: str = "p.mono") -> list[float]:
    """Return the numbers of the value that the details show, after the next frame."""
    page.evaluate("() => new Promise(resume => requestAnimationFrame(() => requestAnimationFrame(resume)))")
    return [float(text) for text in re.split(r"\s+", page.inner_text(f"#value {part}").strip())]


def choose(page: Page, name: str) -> None:
    page.get_by_label("Search").fill(name)
    page.get_by_label("Search").press("Enter")
    page.wait_for_selector("#value")


def test_values_and_gradients_follow_the_inputs(model: Classifier, path: Path, open_page: OpenPage) -> None:
    page = open_page(path)
    page.wait_for_selector(".mark")
    choose(page, "op:cross_entropy")
    model.set(np.zeros(49, np.float32), 0.5, 0)
    np.testing.assert_allclose(value(page), model.loss.forward(), rtol=1e-6)
    x = np.random.default_rng(0).normal(size=49).astype(np.float32)
    page.get_by_label("numbers: x").fill(" ".join(map(str, x.tolist())))
    page.get_by_label("numbers: x").press("Tab")
    page.get_by_label("scale", exact=True).fill("1.25")
    page.get_by_label("label", exact=True).fill("2")
    model.set(x, 1.25, 2)
    np.testing.assert_allclose(value(page), model.loss.forward(), rtol=1e-6)
    gradient = wy.grad(model.loss, model.bias).forward()
    choose(page, "bias")
    page.locator("#gradient").click()
    np.testing.assert_allclose(value(page, "pre"), gradient, rtol=1e-3)  # four digits


def test_drawing_changes_a_number(model: Classifier, path: Path, open_page: OpenPage) -> None:
    page = open_page(path)
    page.wait_for_selector(".mark")
    choose(page, "op:cross_entropy")
    box = page.locator("#inputs canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 2.5 / 7, box["y"] + box["height"] * 4.5 / 7)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 3.5 / 7, box["y"] + box["height"] * 4.5 / 7)
    page.mouse.up()
    x = np.zeros(49, np.float32)
    x[4 * 7 + 2 : 4 * 7 + 4] = 1.0
    drawn = [float(text) for text in page.get_by_label("numbers: x").input_value().split()]
    np.testing.assert_allclose(drawn, x, atol=1e-12)
    model.set(np.array(drawn, np.float32), 0.5, 0)
    np.testing.assert_allclose(value(page), model.loss.forward(), rtol=1e-5)


def test_mistakes_are_told_and_values_stay(path: Path, open_page: OpenPage) -> None:
    page = open_page(path)
    page.wait_for_selector(".mark")
    choose(page, "op:cross_entropy")
    before = value(page)
    for field, text, told in (
        ("label", "3", "label takes 0 to 2, not 3"),
        ("label", "0.5", "label takes whole numbers, not 0.5"),
        ("scale", "", "scale needs a number"),
        ("numbers: x", "1 2 3", "x has 49 numbers, not 3"),
        ("scale", "1e300", "a NaN or an infinity"),
    ):
        page.get_by_label(field, exact=True).fill(text)
        page.get_by_label(field, exact=True).press("Tab")
        assert value(page) == before
        assert told in page.inner_text("#inputs [role=alert]")
    page.get_by_label("scale", exact=True).fill("0")
    np.testing.assert_allclose(value(page), np.log(3.0), rtol=1e-6)
    assert not page.locator("#inputs [role=alert]").is_visible()


def test_a_page_without_a_program_has_no_code_of_one(model: Classifier, tmp_path: Path) -> None:
    text = wy.view.page(model.loss, tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "wasm-unsafe-eval" not in text and "class Live" not in text


def test_errors_come_before_a_file(model: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x = tmp_path / "model.html", wy.Input(dims=(Batch(), Time()), name="x")
    with pytest.raises(ShapeError, match="the axis Time without a size"):
        wy.view.page(x.exp(), path, live=True)
    with pytest.raises(OptionError, match="no operation"):
        wy.view.page(x, path, live=True)
    with pytest.raises(OptionError, match="live=True, sizes"):
        wy.view.page(x.exp(), path, sizes={Time: 3})
    monkeypatch.setattr(live, "_MOST_BYTES", 100)
    with pytest.raises(OptionError, match="a live page carries at most"):
        wy.view.page(model.loss, path, live=True)
    monkeypatch.undo()
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(OptionError, match="needs a linker: pip install"):
        wy.view.page(x.exp(), path, live=True, sizes={Time: 3})
    assert not path.exists()
