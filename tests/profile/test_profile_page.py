"""The page of a profile in a browser: its charts, table and keys, and names that hold markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.browser import OpenPage, brightness
from wyrm.profile import Profile

NAME = "</script><img src=x onerror=alert(1)>"


class Batch(wy.Dim): ...


class Layers(wy.nn.Module):
    def __init__(self) -> None:
        self.first = wy.nn.Linear(16, 16)
        self.layers = [wy.nn.Linear(16, 16) for _ in range(3)]

    def __call__(self, x: Any) -> Any:
        x = self.first(x).tanh()
        for layer in self.layers:
            x = layer(x).tanh()
        return x


@pytest.fixture(scope="module")
def profile() -> Profile:
    x = wy.Input(dims=(Batch(), 16), name=NAME)
    loss = Layers()(x).square().mean()
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.01))
    columns = {x: np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)}
    peaks = wy.profile.Peaks((1e11, 2e11), (5e10, 1e11), (1e10, 2e10), ((2e5, 1e11, 2e11),), threads=2)
    return program.profile(columns, batch_size=16, steps=4, threads=2, mode="synchronized", memory=True, peaks=peaks)


def test_a_stage_is_found_by_the_keyboard_alone(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    page = open_page(profile.page(tmp_path / "profile.html", title="A <model>"))
    assert page.title() == "A <model>" and page.locator("h1").text_content() == "A <model>"
    details = page.locator("#details")
    page.locator("#search").focus()
    page.keyboard.type("layers[*]")
    rows = page.locator("#rows tr")
    assert 0 < rows.count() < len(profile.groups)
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "layers[" in (details.text_content() or "") and rows.nth(1).get_attribute("aria-selected") == "true"
    assert page.locator("#live").text_content() != ""
    # Into the flame chart and back.
    page.locator("#search").fill("")
    page.locator("#flame button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#flame button:focus").count() == 1
    backward = page.locator('#flame button[aria-label^="backward:"]')
    inside = backward.count()
    page.keyboard.press("Escape")
    assert (inside, backward.count()) == (0, 1)


def test_pictures_keep_their_words_on_a_telephone(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    path = profile.page(tmp_path / "profile.html")
    page = open_page(path, width=390)
    for name in ("roofline", "memory"):
        shown = page.locator(f"#{name}").bounding_box()
        assert shown is not None and shown["width"] >= 800
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # the picture scrolls, not the page
    page = open_page(path, width=1280)
    region, last = (page.locator(each).bounding_box() for each in (".scrolls.tall", "#columns th:last-child"))
    assert region is not None and last is not None
    assert last["x"] + last["width"] <= region["x"] + region["width"] + 1


def test_a_stage_too_short_to_be_seen_is_marked_by_its_module(
    open_page: OpenPage, profile: Profile, tmp_path: Path
) -> None:
    first, *others = profile.stages
    short = replace(profile, stages=(replace(first, seconds=1e-12), *others))
    page = open_page(short.page(tmp_path / "profile.html"))
    page.get_by_role("button", name="Equal layers together").click()
    page.locator("#rows tr").last.click()
    assert page.locator("#flame button.chosen").count() == 1
    assert page.locator("#flame button.chosen.leaf").count() == 0


def test_every_view_shows_the_chosen_stage(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    page = open_page(profile.page(tmp_path / "profile.html"))
    page.get_by_role("button", name="Equal layers together").click()
    assert page.locator("#rows tr").count() == len(profile.stages)
    page.locator("#rows tr", has_text="matmul").first.click()
    for view in ("#roofline circle.chosen", "#timeline rect.chosen", "#flame button.chosen"):
        assert page.locator(view).count() >= 1, view
    page.locator("#columns button", has_text="GFLOP/s").click()
    page.locator("#columns button", has_text="GFLOP/s").click()
    assert page.locator("#columns th[aria-sort=ascending]").count() == 1
    page.get_by_role("button", name="Show less time").click()
    assert page.locator("#timeline-zoom").text_content() == "2\u00d7"
    page.locator("#memory rect").first.click()
    assert "MiB" in (text := page.locator("#memory-chosen").text_content() or "") or " B" in text
    assert page.locator("#owners tr").count() >= 1


def test_names_are_text_and_not_markup(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    path = profile.page(tmp_path / "profile.html")
    assert NAME not in path.read_text()
    page = open_page(path)
    assert page.locator("img").count() == 0
    assert page.locator("#rows tr", has_text=f"load {NAME}").count() == 1


def test_the_page_is_light_and_dark_and_fits_a_telephone(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    path = profile.page(tmp_path / "profile.html")
    light, dark = open_page(path).screenshot(), open_page(path, color_scheme="dark").screenshot()
    assert brightness(light) > 0.7 > 0.3 > brightness(dark)
    narrow = open_page(path, width=390)
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_notebook_shows_the_page_in_a_frame(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    shown = profile._repr_mimebundle_()
    assert shown["text/plain"] == str(profile)
    (tmp_path / "notebook.html").write_text(shown["text/html"])
    page = open_page(tmp_path / "notebook.html")
    frame = page.frame_locator("iframe")
    frame.locator("#rows tr").first.wait_for()
    assert frame.locator("#rows tr").count() == len(profile.groups)


def test_a_profile_without_flops_or_memory_has_a_page(open_page: OpenPage, tmp_path: Path) -> None:
    x = wy.IndexInput(dims=(4,), name="x")
    table = wy.Parameter(np.ones((5, 2), np.float32), name="table")
    peaks = wy.profile.Peaks((1e11, 1e11), (1e11, 1e11), (1e10, 1e10))
    profile = wy.compile(table.index(x)).profile({x: np.arange(4)}, steps=2, peaks=peaks)
    page = open_page(profile.page(tmp_path / "profile.html"))
    assert page.get_by_text("No stage with floating-point operations.").count() == 1
    assert not page.locator("#memory-panel").is_visible()


def test_the_labels_of_the_roofline_stand_apart_and_the_step_has_a_line(
    open_page: OpenPage, profile: Profile, tmp_path: Path
) -> None:
    # Four stages of the same rate and size: their names would lie over each other.
    stages = tuple(
        replace(stage, nodes=(f"operation number {position}",), seconds=1.0, typical_seconds=0.01, flops=2.0e6,
                bytes_read=1.0e5, bytes_written=1.0e5, calls=100)
        for position, stage in enumerate(profile.stages[:4])
    )  # fmt: skip
    crowded = replace(profile, stages=stages, thread_seconds=4.0, steps=100)
    page = open_page(crowded.page(tmp_path / "profile.html"))
    texts = page.locator("#roofline text.over").all_text_contents()
    assert sum("operation number" in text for text in texts) >= 3
    assert any(text.startswith("the step: ") and "ms" in text for text in texts)
    assert page.locator("#roofline line.step").count() == 1
    meeting = page.locator("#roofline text.over:not([transform])").evaluate_all(
        """(nodes) => {
          const boxes = nodes.map((node) => node.getBoundingClientRect());
          const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
          return boxes.filter((a, i) => boxes.some((b, j) => i < j && meet(a, b))).length;
        }"""
    )
    assert meeting == 0


def test_the_step_is_not_named_on_the_name_of_a_roof(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    stage = replace(profile.stages[0], seconds=4.0, typical_seconds=0.04, flops=8.0e6, bytes_read=1.0e5, calls=100)
    # The roof of memory begins where the line of the step does, at 0.2 GFLOP/s and 0.1 operations for each byte.
    peaks = wy.profile.Peaks((1e11, 1e11), (1e11, 1e11), (1.5e9, 1.5e9))
    crowded = replace(profile, stages=(stage,), thread_seconds=4.0, steps=100, peaks=peaks)
    page = open_page(crowded.page(tmp_path / "profile.html"))
    assert page.locator("#roofline text[transform].over").count() == 1
    meeting = page.locator("#roofline text.over").evaluate_all(
        """(nodes) => {
          const box = (words) => nodes.find((node) => node.textContent.startsWith(words)).getBoundingClientRect();
          const [a, b] = [box("memory, "), box("the step: ")];
          return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        }"""
    )
    assert not meeting
