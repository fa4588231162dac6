"""Writing and opening the page of a graph."""

from __future__ import annotations

import json
import re
import webbrowser
from pathlib import Path
from typing import Any

import pytest

import wyrm as wy
from tests.browser import OpenPage


@pytest.fixture
def loss() -> Any:
    x = wy.Input(dims=(4, 3), name="</script><script>alert(1)</script>")
    return wy.nn.Linear(3, 2)(x).tanh().sum()


def test_a_page_is_one_file_with_its_data(loss: Any, tmp_path: Path) -> None:
    path = wy.view.page(loss, str(tmp_path / "model.html"))
    assert path == tmp_path / "model.html"
    text = path.read_text(encoding="utf-8")
    (written,) = re.findall(r'<script type="application/json" id="graph">(.*?)</script>', text, re.DOTALL)
    data = json.loads(written)
    assert data["title"] == "sum"
    assert "</script><script>alert(1)</script>" in data["strings"]
    assert "<script>alert(1)" not in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)


def test_a_page_replaces_the_one_before(loss: Any, tmp_path: Path) -> None:
    first = wy.view.page(loss, tmp_path / "model.html").read_text(encoding="utf-8")
    second = wy.view.page(loss.tanh(), tmp_path / "model.html").read_text(encoding="utf-8")
    assert first != second
    assert [each.name for each in tmp_path.iterdir()] == ["model.html"]


def test_a_path_that_cannot_be_written(loss: Any, tmp_path: Path) -> None:
    with pytest.raises(wy.errors.OptionError, match=r"is a folder: give the page a file name, such as .*model\.html"):
        wy.view.page(loss, tmp_path)
    with pytest.raises(wy.errors.OptionError, match=r"the folder .*absent does not exist"):
        wy.view.page(loss, tmp_path / "absent" / "model.html")
    with pytest.raises(TypeError, match="not Linear; for a module, give it model"):
        wy.view.page(wy.nn.Linear(3, 2), tmp_path / "model.html")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="the path of a page is text or a Path, not Sum: page"):
        wy.view.page(loss, loss)
    with pytest.raises(TypeError, match="not a list that holds Linear; for a module"):
        wy.view.page([loss, wy.nn.Linear(3, 2)], tmp_path / "model.html")  # type: ignore[list-item]  # the mistake
    assert list(tmp_path.iterdir()) == []


def test_opening_a_page(loss: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    opened = list[str]()
    # `append` returns None, after which `or` gives a value.
    show = lambda address: opened.append(address) or True  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(webbrowser, "open", show)
    path = wy.view.open(loss)
    assert opened == [path.as_uri()]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    with pytest.raises(wy.errors.OptionError, match=r"no browser can be opened here; the page is .*graph\.html"):
        wy.view.open(loss)


def test_a_notebook_shows_the_page_in_a_frame(loss: Any, open_page: OpenPage, tmp_path: Path) -> None:
    cell = tmp_path / "cell.html"
    frame = loss._repr_mimebundle_()["text/html"]
    cell.write_text(f"<!doctype html><title>cell</title><div style='height:1500px'></div>{frame}", encoding="utf-8")
    page = open_page(cell)
    page.locator("iframe").scroll_into_view_if_needed()
    name = page.frame_locator("iframe").get_by_text("tanh").first
    name.wait_for()
    # The graph fits the frame, which has no size before it is scrolled into view.
    box, outer = name.bounding_box(), page.locator("iframe").bounding_box()
    assert box is not None
    assert outer is not None
    assert outer["x"] + 100 < box["x"] < outer["x"] + outer["width"] - 100
