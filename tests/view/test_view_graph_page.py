"""The graph page in a browser: what a reader sees, clicks and types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import wyrm as wy
from tests.browser import OpenPage, brightness, likeness
from wyrm.view.graph_data import graph_data
from wyrm.view.html import graph_html

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


class Features(wy.Dim): ...


class Time(wy.Dim): ...


class Block(wy.nn.Module):
    def __init__(self) -> None:
        self.norm = wy.nn.LayerNorm(Features(8))
        self.linear = wy.nn.Linear(Features(8), Features(8))

    def __call__(self, x: wy.Node) -> wy.Node:
        return x + self.linear(self.norm(x)).tanh()


class Model(wy.nn.Module):
    def __init__(self, depth: int = 3) -> None:
        self.blocks = [Block() for _ in range(depth)]
        self.output = wy.nn.Linear(Features(8), 2)

    def __call__(self, x: wy.Node) -> wy.Node:
        for block in self.blocks:
            x = block(x)
        return self.output(x)


def model_data(name: str = "data") -> dict[str, Any]:
    return graph_data((Model()(wy.Input(dims=(4, Features(8)), name=name)) * 3.0).sum())


@pytest.fixture
def show(open_page: OpenPage, tmp_path: Path) -> Any:
    def show(data: dict[str, Any], **options: Any) -> Page:
        path = tmp_path / "graph.html"
        path.write_text(graph_html(data), encoding="utf-8")
        return open_page(path, **options)

    return show


def box(page: Page, words: str) -> Locator:
    """Return the box whose label starts with the words."""
    return page.locator(f'#picture g[role="button"][aria-label^={json.dumps(words, ensure_ascii=False)}]')


def until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for a condition. Playwright's own wait evaluates text in the page, which the page's policy forbids."""
    for _ in range(200):
        if condition():
            return
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    raise AssertionError("the page did not get there")


def overlaps(page: Page) -> list[list[str]]:
    """Return pairs of labels of closed boxes that overlap."""
    pairs: list[list[str]] = page.evaluate(
        """() => {
            const boxes = [...document.querySelectorAll("g.box:not(.open)")].map((box) => {
                const { x, y, width, height } = box.querySelector(":scope > rect:not(.behind)").getBoundingClientRect();
                return { label: box.getAttribute("aria-label"), x, y, right: x + width, bottom: y + height };
            });
            const pairs = [];
            for (const a of boxes) for (const b of boxes) {
                const meet = a.x < b.right && b.x < a.right && a.y < b.bottom && b.y < a.bottom;
                if (a !== b && meet) pairs.push([a.label, b.label]);
            }
            return pairs;
        }"""
    )
    return pairs


def test_groups_are_closed_at_first_and_equal_layers_are_one_box(show: Any) -> None:
    page = show(model_data())
    assert page.title() == page.locator("h1").inner_text()
    label = box(page, "data").get_attribute("aria-label") or ""
    assert label.endswith(", axes unnamed, Features")
    assert "group of 27 nodes" in (box(page, "blocks[0…2]").get_attribute("aria-label") or "")
    assert box(page, "output Linear").get_attribute("aria-expanded") == "false"
    assert box(page, "matmul").count() == 0
    assert overlaps(page) == []
    edges = [box.bounding_box() for box in page.locator("#picture g.box").all()]
    assert all(edge is not None and edge["y"] > 46 and edge["y"] + edge["height"] < 800 for edge in edges)


def test_groups_open_and_close_by_click(show: Any) -> None:
    page = show(model_data())
    box(page, "blocks[0…2]").click()
    assert box(page, "blocks[1] Block").is_visible()
    assert page.locator("#details").get_by_text("3 times the same").is_visible()
    box(page, "blocks[1] Block").click()
    assert box(page, "tanh").count() == 1
    assert overlaps(page) == []
    assert page.locator("#live").inner_text() == "blocks[1] opened, 4 boxes"
    box(page, "blocks[0…2]").click()
    assert box(page, "tanh").count() == 0
    page.get_by_role("button", name="Expand", exact=True).click()
    page.get_by_role("button", name="Fit").click()
    until(page, lambda: box(page, "tanh").count() == 3 and box(page, "bias").count() == 7)
    assert overlaps(page) == []
    page.get_by_role("button", name="Collapse").click()
    until(page, lambda: box(page, "output Linear").is_visible() and box(page, "tanh").count() == 0)


def test_a_search_opens_the_groups_of_its_hit(show: Any) -> None:
    page = show(model_data())
    page.keyboard.press("/")
    page.keyboard.type("op:matmul axis:features path:blocks[2]")
    hits = page.get_by_role("option")
    assert hits.count() == 3 and all("blocks[2].linear" in hit for hit in hits.all_inner_texts())
    assert "found" in (box(page, "blocks[0…2]").get_attribute("class") or "").split()
    page.keyboard.press("Enter")
    assert box(page, "matmul").get_attribute("aria-current") is not None
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("matmul")
    assert page.locator("#details h2").inner_text() == "matmul"
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type("blocks[1].linear.weight")
    assert hits.count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#details dd").all_inner_texts()[:3] == ["parameter", "weight", "blocks[1].linear.weight"]
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type("nothing like this")
    assert page.locator("#hits").inner_text() == "0 hits"
    page.keyboard.press("Escape")
    assert page.locator("#hits").is_hidden()


def test_details_lead_to_the_gradient_and_back(show: Any) -> None:
    page = show(model_data())
    box(page, "output").click()
    box(page, "matmul").click()
    details = page.locator("#details")
    text = details.inner_text()
    assert "matmul(add, weight)" in text and "float32" in text and "64 B" not in text and "32 B" in text
    assert "test_view_graph_page.py:" in text and "return self.output(x)" in text
    details.get_by_role("button", name="add").first.click()
    assert details.locator("h2").inner_text() == "add"
    box(page, "matmul").click()
    assert page.locator("g.box.part-1").count() == 0
    details.get_by_role("button", name="Show its gradient").click()
    assert page.get_by_role("button", name="Backward", exact=True).get_attribute("aria-pressed") == "true"
    assert details.get_by_text("backward", exact=True).is_visible()
    assert page.locator("g.box[aria-current]").get_attribute("aria-label").endswith(", backward")
    page.keyboard.press("g")
    assert page.locator("g.box[aria-current]").get_attribute("aria-label").startswith("matmul")


def test_a_selected_node_shows_the_positions_on_which_it_depends(show: Any) -> None:
    time = Time()
    x = wy.Input(dims=(time, Features(8)), name="data")
    positions: Any = wy.arange(time)
    weights = wy.where(positions[:, None] >= positions, x @ x.T, -np.inf).softmax()
    page = show(graph_data(weights @ x))
    box(page, "softmax").click()
    section = page.locator("#details section", has_text="Depends on positions")
    rows = [row.inner_text().split("\t") for row in section.locator("tr").all()]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["data", "Time", "up to its own"], ["data", "Features", "all"],
    ]  # fmt: skip
    box(page, "data").click()
    assert section.count() == 0


def test_the_keyboard_alone_explores_the_graph(show: Any) -> None:
    page = show(model_data())

    def focused() -> str:
        label: str = page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")
        return label

    page.locator("#picture").focus()
    page.keyboard.press("ArrowDown")
    assert focused().startswith("data")
    for expected in ("blocks[0…2]", "output", "multiply 3.0", "sum"):
        page.keyboard.press("ArrowDown")
        assert focused().startswith(expected)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert box(page, "output").get_attribute("aria-expanded") == "true" and focused().startswith("output")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert focused().split()[0] in ("matmul", "add")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "details"
    page.keyboard.press("Escape")
    assert focused().split()[0] in ("matmul", "add")
    page.keyboard.press("Escape")
    assert page.locator("#details").is_hidden()
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").is_hidden()


def test_wheel_drag_and_keys_move_the_picture(show: Any) -> None:
    page = show(model_data())

    def width() -> float:
        found = box(page, "output").bounding_box()
        assert found is not None
        return float(found["width"])

    before = width()
    page.mouse.move(400, 400)
    page.mouse.wheel(0, -300)
    until(page, lambda: width() > before * 1.2)
    page.keyboard.press("0")
    until(page, lambda: abs(width() - before) < 1)
    start = box(page, "output").bounding_box()
    page.mouse.move(200, 300)
    page.mouse.down()
    page.mouse.move(150, 260, steps=4)
    page.mouse.up()

    def moved() -> bool:
        end = box(page, "output").bounding_box()
        return start is not None and end is not None and abs(end["x"] - start["x"] + 50) < 2

    until(page, moved)
    assert page.locator("#details").is_hidden()  # a drag selects nothing


def test_dark_colours_follow_the_system_and_the_button(show: Any) -> None:
    data = model_data()
    light, dark = show(data), show(data, color_scheme="dark")
    assert brightness(light.screenshot()) > 0.85 and brightness(dark.screenshot()) < 0.25
    button = dark.get_by_role("button", name="Colours")
    button.click()
    assert brightness(dark.screenshot()) > 0.85
    dark.reload()
    assert brightness(dark.screenshot()) > 0.85
    button.click()
    assert button.get_attribute("aria-label") == "Colours: dark"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_looks_as_before(show: Any, scheme: str) -> None:
    page = show(model_data(), color_scheme=scheme)
    page.keyboard.press("e")
    box(page, "tanh").first.click()
    page.keyboard.press("0")
    page.mouse.move(0, 0)
    until(page, lambda: box(page, "tanh").count() == 3)
    picture = page.screenshot()
    kept = Path(__file__).parent / f"graph_page_{scheme}.png"
    # After a change of looks, delete the pictures: the next run keeps new ones, to be looked at.
    if not kept.exists():
        small = Image.open(BytesIO(picture)).convert("L").resize((320, 200))
        small.save(kept, optimize=True)
    assert likeness(picture, kept.read_bytes()) > 0.6  # fonts differ


def test_printing_fits_the_whole_graph_without_controls(show: Any) -> None:
    page = show(model_data(), color_scheme="dark")
    page.get_by_role("button", name="Expand", exact=True).click()
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".sheet svg").first.get_attribute("viewBox") is not None
    assert page.locator("#search").is_hidden() and page.locator("h1").is_visible()
    assert box(page, "tanh").count() == 3
    assert brightness(page.screenshot()) > 0.85
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator(".sheet").count() == 0


def test_layers_that_others_stand_between_are_boxes_of_their_own(show: Any) -> None:
    layer = wy.nn.Linear(Features(8), Features(8))
    hidden = layer(layer(wy.Input(dims=(4, Features(8)), name="x")).relu())
    page = show(graph_data(hidden.sum()))
    tops = [box["y"] for box in (drawn.bounding_box() for drawn in page.locator("g.group, g.kind-3").all()) if box]
    assert page.locator("g.group").count() == 2 and len(set(tops)) == len(tops) == 4


def test_equal_layers_of_different_names_are_boxes_of_their_own(show: Any) -> None:
    class Split(wy.nn.Module):
        def __init__(self) -> None:
            self.mean, self.spread = wy.nn.Linear(Features(8), 2), wy.nn.Linear(Features(8), 2)

        def __call__(self, x: wy.Node) -> wy.Node:
            return self.mean(x) * (self.spread(x) + 0.3)

    page = show(graph_data(Split()(wy.Input(dims=(4, Features(8)), name="x")).sum()))
    assert box(page, "mean").is_visible() and box(page, "spread").is_visible()
    assert box(page, "add 0.3 ").is_visible()


def test_markup_in_names_is_text(show: Any) -> None:
    names = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "<!-- & \u2028 \\"]
    inputs = [wy.Input(dims=(4,), name=name) for name in names]
    page = show({**graph_data((inputs[0] * inputs[1] + inputs[2]).sum()), "title": names[1]})
    assert page.title() == page.locator("h1").text_content() == names[1]
    for name in names:
        box(page, name).click()
        assert page.locator("#details h2").text_content() == name
    page.get_by_role("button", name="Close the details").click()
    page.keyboard.press("/")
    page.keyboard.type("<")
    assert page.get_by_role("option").count() >= 3
    assert page.locator("img").count() == 0


def test_ten_thousand_nodes_without_groups(show: Any) -> None:
    random = np.random.default_rng(0)
    nodes: list[wy.Node] = [wy.Input(dims=(4,), name="first")]
    while len(nodes) < 10_000:
        left, right = (nodes[-1 - min(int(random.exponential(4)), len(nodes) - 1)] for _ in range(2))
        nodes.append(left + right if random.random() < 0.5 else left.tanh())
    last: wy.Node = nodes[-1].sum()
    for node in nodes[-300:]:
        last = last + node.sum()
    data = graph_data(last)
    assert len(data["nodes"]["op"]) > 10_000
    page = show(data)
    assert box(page, "first").is_visible()
    assert 10 < page.locator("g.box").count() < 1000
    assert overlaps(page) == []
    page.keyboard.press("0")
    until(page, lambda: page.locator("#picture.far").count() == 1)
    assert page.locator("g.box").count() == 0 and page.locator("#picture path.far-op-0").count() == 1
    page.keyboard.press("/")
    page.keyboard.type("first")
    page.keyboard.press("Enter")
    assert box(page, "first").is_visible()
    assert overlaps(page) == []


def test_the_program_shows_its_stages_and_arrays(show: Any) -> None:
    data = model_data()
    ops = [data["strings"][op] for op in data["nodes"]["op"]]
    tanhs = [node for node, op in enumerate(ops) if op == "tanh" and data["nodes"]["part"][node] == 0]
    adds = [data["nodes"]["op"].index(data["nodes"]["op"][tanhs[0]])]
    data["program"] = {
        "stages": [
            {"name": "matmul", "kind": "product", "nodes": [], "part": 0, "bytes": 128, "flops": 512},
            {"name": "loop: tanh", "kind": "loop", "nodes": tanhs, "part": 0, "bytes": 256, "flops": 0},
            {"name": "sum", "kind": "loop", "nodes": adds, "part": 0, "bytes": 4, "flops": 0},
        ],
        "buffers": [
            {"name": "hidden", "bytes": 128, "first": 0, "last": 1, "nodes": [tanhs[2]]},
            {"name": "activated", "bytes": 4096, "first": 1, "last": 2, "nodes": [tanhs[1]]},
        ],
    }
    page = show(data)
    page.get_by_role("button", name="Program", exact=True).click()
    assert page.locator("#drawer").get_by_text(re.compile(r"at most 4\.1\d KiB, in stage 2")).is_visible()
    page.get_by_role("button", name="loop: tanh").click()
    page.get_by_role("button", name="Fit").click()
    until(page, lambda: box(page, "tanh").count() == 3)  # the groups of its nodes are open
    assert "dim" not in (box(page, "tanh").first.get_attribute("class") or "").split()
    assert "dim" in (box(page, "data").get_attribute("class") or "").split()
    page.keyboard.press("Escape")
    assert page.locator("g.box.dim").count() == 0
    page.locator("#drawer .owners").get_by_role("button", name="activated").click()
    assert page.locator("#details h2").inner_text() == "tanh"
    assert page.locator("#details").get_by_role("button", name="2. loop: tanh").is_visible()
    page.keyboard.press("p")
    assert page.locator("#drawer").is_hidden() and page.locator("g.mark").count() == 0


def test_the_page_holds_no_text_as_markup() -> None:
    html = graph_html(model_data("</script><b>"))
    payload = re.search(r'<script type="application/json" id="graph">(.*?)</script>', html, re.DOTALL)
    assert payload is not None and "<" not in payload[1]
    assert "</script><b>" in json.loads(payload[1])["strings"]
    assert "innerHTML" not in html.replace("dagre", "") and "http-equiv" in html


def test_a_small_model_is_whole_on_a_telephone(show: Any) -> None:
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    tokens, targets = (wy.IndexInput(dims=(2, 16), name=name) for name in ("tokens", "targets"))
    page = show(graph_data(model.loss(tokens, targets)), width=390)
    for each in page.locator('#picture g[role="button"]').all():
        found = each.bounding_box()
        assert found is not None and found["x"] >= 0 and found["x"] + found["width"] <= 390
