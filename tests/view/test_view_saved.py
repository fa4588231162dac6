"""The graph page beyond the window: the overview map, sheets of paper, SVG files, and hints before a first run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.browser import OpenPage
from tests.view.test_view_graph_page import box, model_data, show, until
from wyrm.view.graph_data import graph_data

__all__ = ["show"]


class Batch(wy.Dim): ...


class Bits(wy.Dim): ...


def words(page: Any, label: str) -> str:
    text: str = box(page, label).first.locator("text").last.text_content() or ""
    return text


def operations(*outputs: wy.Node) -> set[str]:
    data = graph_data(outputs)
    return {data["strings"][op] for op in data["nodes"]["op"]}


def test_branches_and_mapped_loops_have_their_own_names() -> None:
    x = wy.Input(name="x")
    chosen = wy.cond(x > 0.0, lambda y: y * 2.0, lambda y: y.sin(), x)
    assert {"cond", "cond_part"} <= operations(chosen) and "scan" not in operations(chosen)
    index = wy.IndexInput(name="index")
    assert "switch" in operations(wy.switch(index, [lambda y: y, lambda y: y * 2.0], x))
    assert "while_loop" in operations(wy.while_loop(lambda y: y < 100.0, lambda y: y * 2.0, x))
    rows = wy.Input(dims=(5, 3), name="rows")
    mapped = wy.vmap(lambda row: wy.scan(lambda total, z: (total + z, total), wy.Constant(0.0), row)[0])(rows)
    assert "scan" in operations(mapped)


def test_a_branch_says_when_it_is_computed() -> None:
    class Cell(wy.nn.Module):
        def __call__(self, x: Any) -> Any:
            return wy.cond(x.sum() > 0.0, lambda y: (y * y).tanh(), lambda y: y, x)

    x = wy.Input(dims=(3,), name="x")
    data = graph_data(wy.scan(lambda total, z: (Cell()(total) + z, total), wy.Constant(0.0), x)[0])
    kinds = {data["strings"][kind] for kind in data["groups"]["class"] if kind >= 0}
    assert "3 steps" in kinds and not any("up to" in kind for kind in kinds)


def test_axes_have_their_names_and_sizes(show: Any) -> None:
    x = wy.Input(dims=(Batch(), Bits(10)), name="x")
    flat = x.reshape(-1).exp()
    page = show(graph_data(flat.sum()))
    assert words(page, "x ") == "Batch \N{MULTIPLICATION SIGN} Bits 10" and words(page, "exp ") == "Batch·10"


def test_edges_pass_behind_the_title_of_an_open_group(show: Any) -> None:
    page = show(model_data())
    box(page, "blocks[0…2]").click()
    header = page.locator(".box.open .header").last
    fill, opacity = header.evaluate("(node) => [getComputedStyle(node).fill, getComputedStyle(node).fillOpacity]")
    assert fill.startswith("rgb(") and opacity == "1"


def test_the_map_shows_where_the_window_is_and_moves_it(show: Any) -> None:
    page = show(model_data(), width=900, height=500)
    small = page.locator("#map")
    assert small.is_hidden()  # the whole is in the window
    page.get_by_role("button", name="Expand", exact=True).click()
    small.wait_for()
    place = small.locator("svg").bounding_box()
    assert place is not None
    before = page.locator("#world").get_attribute("transform")
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] - 2)
    until(page, lambda: page.locator("#world").get_attribute("transform") != before)
    assert box(page, "sum").is_visible()
    page.get_by_role("button", name="Fit").click()
    until(page, small.is_hidden)


def test_the_picture_is_saved_as_svg_that_stands_alone(show: Any, tmp_path: Path) -> None:
    page = show(model_data(), width=500, height=400)
    page.get_by_role("button", name="Expand", exact=True).click()
    shown = page.locator("g.box").count()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    download.value.save_as(tmp_path / "model.svg")
    text = (tmp_path / "model.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert titles.count("tanh") == 3 and len(titles) > shown  # those outside the window too
    assert "var(" not in text and "class=" not in text and root.get("viewBox") is not None
    assert page.locator("g.box").count() == shown


@pytest.mark.parametrize("depth", [1, 12])
def test_a_large_picture_is_printed_on_sheets(show: Any, depth: int) -> None:
    from tests.view.test_view_graph_page import Features, Model

    page = show(graph_data((Model(depth)(wy.Input(dims=(4, Features(8)), name="data")) * 3.0).sum()))
    page.get_by_role("button", name="Expand", exact=True).click()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    sheets = page.locator(".sheet")
    assert sheets.count() == 1 if depth == 1 else sheets.count() > 3
    assert sheets.first.locator("svg").bounding_box()["height"] > 300
    if depth > 1:
        assert sheets.last.inner_text().startswith(f"Row {sheets.count()} of {sheets.count()}")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert sheets.count() == 0


def test_the_backward_part_is_in_view_when_it_is_switched_on(show: Any) -> None:
    from tests.view.test_view_graph_page import Features, Model

    page = show(graph_data((Model(12)(wy.Input(dims=(4, Features(8)), name="data")) * 3.0).sum()), width=900)
    page.get_by_role("button", name="Expand", exact=True).click()
    page.keyboard.press("b")
    until(page, lambda: page.locator(".box.part-1").count() > 0)
    inside = """(nodes) => nodes.filter((node) => {
      const { x, y, right, bottom } = node.getBoundingClientRect();
      return right > 0 && x < innerWidth && bottom > 46 && y < innerHeight;
    }).length"""
    until(page, lambda: page.locator(".box.part-1").evaluate_all(inside) > 0)
    assert page.locator(".box.part-0").evaluate_all(inside) > 0


def test_before_the_first_run_the_page_says_what_to_do(open_page: OpenPage, tmp_path: Path) -> None:
    x = wy.Input(dims=(Batch(), Bits(4)), name="x")
    loss = wy.nn.Linear(Bits(4), 3)(x).relu().mean()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    page = open_page(wy.view.page(program, tmp_path / "before.html"))
    page.keyboard.press("p")
    assert "This program has not run yet" in page.locator("#drawer").inner_text()
    program({x: np.ones((8, 4))})
    page = open_page(wy.view.page(program, tmp_path / "after.html"))
    page.keyboard.press("p")
    assert "has not run yet" not in page.locator("#drawer").inner_text()
