"""The page of runs in a real browser: live, over kills and restarts, several runs, dark, by keyboard."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wyrm as wy
from tests.browser import OpenPage, brightness
from tests.watch.test_watch_files import POINTS, START, values
from wyrm.watch.records import EVENTS, encoded
from wyrm.watch.runs import Runs
from wyrm.watch.server import listening, server_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

# A training of steps without an end, which goes on from its last record.
TRAINING = """
import sys, time
import wyrm as wy
step = int(sys.argv[2])
with wy.watch.RunWriter(sys.argv[1], step=step, steps=100_000, tensorboard=False) as run:
    while True:
        step += 1
        run.values(step, {"loss": 10.0 / step}, rows=8)
        time.sleep(0.02)
"""
MARKUP = "<img src=x onerror=alert(1)>"


class Served:
    """A server of one folder in a thread, which can be stopped and started again at the same address."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.port = runs, 0
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/token/"

    def start(self) -> None:
        self._listener = listening(self.port)
        self.port = self._listener.getsockname()[1]
        self._server = server_of(Runs([self.runs]), "token")
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    (tmp_path / "runs").mkdir()
    server = Served(tmp_path / "runs")
    yield server
    server.stop()


@pytest.fixture
def training(served: Served) -> Iterator[Callable[[int], subprocess.Popen[bytes]]]:
    """Starts a training in the folder `live` from a step on."""
    started: list[subprocess.Popen[bytes]] = []

    def start(step: int) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", TRAINING, str(served.runs / "live"), str(step)]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def shown_step(page: Page) -> int:
    text = page.locator("#runs li").first.inner_text()
    return int(text.partition("step ")[2].split(" ")[0].replace(",", "") or 0)


def wait_beyond(page: Page, step: int) -> None:
    page.wait_for_function(
        "step => Number((document.querySelector('#runs li')?.innerText.match(/step ([0-9,]+)/)?.[1] ?? '0')"
        ".replaceAll(',', '')) > step",
        arg=step,
    )


def write(folder: Path, *records: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / EVENTS).write_bytes(b"".join(map(encoded, records)))


def test_a_live_run_that_is_killed_and_resumed(
    served: Served, training: Callable[[int], subprocess.Popen[bytes]], open_page: OpenPage
) -> None:
    page = open_page(served.address, expected=("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET"))
    page.get_by_text("No run yet").wait_for()
    first = training(0)
    wait_beyond(page, 5)
    assert "training" in page.locator("#runs").inner_text()
    first.send_signal(signal.SIGKILL)
    first.wait()
    events = served.runs / "live" / EVENTS
    with events.open("ab") as file:  # what a kill in the middle of a write leaves
        file.write(b'{"kind":"values","time":1')
    page.get_by_text("killed: its process is gone").first.wait_for()
    before = shown_step(page)
    training(before // 2)
    page.get_by_text("Continued once.").wait_for()
    wait_beyond(page, before)
    # The server restarts while training goes on.
    served.stop()
    page.get_by_text("The server does not answer").wait_for()
    before = shown_step(page)
    served.start()
    wait_beyond(page, before)
    assert page.locator("#trouble").is_hidden() and "damaged" not in page.locator("#runs").inner_text()


def test_two_runs_side_by_side(served: Served, open_page: OpenPage) -> None:
    for name, factor in (("first", 1.0), (MARKUP, 2.0)):
        write(
            served.runs / name, START | {"name": name},
            *(values(step, loss=factor / step, **{f"accuracy {MARKUP}": step / 30}) for step in range(1, 30)),
            values(30, validation_loss=factor, loss=float("nan")),
        )  # fmt: skip
    with (served.runs / "first" / EVENTS).open("ab") as file:
        file.write(b"damage\n")
    page = open_page(served.address)
    loss = page.get_by_role("group", name="Loss")
    loss.wait_for()
    rows = page.locator("section.chart").filter(has_text="Loss").locator(".legend tbody tr")
    assert rows.count() == 4  # loss and validation of two runs
    assert page.get_by_role("heading", name=f"accuracy {MARKUP}").is_visible() and page.locator("img").count() == 0
    assert "1 damaged line left out" in page.locator("#runs").inner_text() and "NaN" in rows.first.inner_text()
    # By keyboard: the cursor, then a run that is hidden.
    loss.focus()
    page.keyboard.press("Home")
    assert "step 1: " in (page.locator("#live").text_content() or "")
    page.keyboard.press("ArrowRight")
    assert f"{MARKUP} 1" in (page.locator("#live").text_content() or "")
    page.locator("#runs").get_by_role("checkbox", name="first").press("Space")
    assert rows.count() == 2
    page.get_by_role("button", name="Time").press("Enter")
    page.get_by_role("button", name="Log scale").press("Enter")
    assert page.get_by_role("button", name="Time").get_attribute("aria-pressed") == "true"


def test_a_damaged_run_does_not_blank_the_others(served: Served, open_page: OpenPage) -> None:
    write(served.runs / "honest", START, *(values(step, loss=1.0 / step) for step in range(1, 9)))
    for name, encoding in (("marked", "utf-8-sig"), ("wide", "utf-16")):
        (served.runs / name).mkdir()
        (served.runs / name / EVENTS).write_bytes(encoded(START).decode().encode(encoding))
    # Neighbours among floats, and numbers that no axis has.
    edges = [1.0, 1.0000000000000002, 5e16, -1.7e308, 1.7e308]
    lines = (json.dumps(values(step, loss=value)) for step, value in enumerate(edges, 1))
    (served.runs / "edges").mkdir()
    (served.runs / "edges" / EVENTS).write_text("\n".join([json.dumps(START), *lines, ""]))
    page = open_page(served.address)
    page.get_by_role("group", name="Loss").wait_for()
    rows = page.locator("section.chart").filter(has_text="Loss").locator(".legend tbody tr")
    assert sorted(row.split("\t")[0] for row in rows.all_inner_texts()) == ["edges", "honest"]
    assert page.get_by_text("damaged line").count() == 2


def test_the_inside_of_a_model_light_and_dark(served: Served, open_page: OpenPage, tmp_path: Path) -> None:
    weight = wy.Parameter(np.linspace(-1.0, 1.0, 100), name="weight")
    with wy.watch.RunWriter(served.runs / "run", {"hidden.weight": weight}, tensorboard=False) as run:
        run.budget.start -= 100.0  # a long training, which affords everything
        for step in range(1, 4):
            run.values(step, {"loss": 1.0 / step})
            run.flush()
            run.hold()
            weight.set(np.asarray(weight.value) * 0.9)
            run.step += 1
            run._histograms_pace.next = 0.0
            run.modules()
        run.text(f"Once {MARKUP}", prompt="Once")
    page = open_page(served.address)
    page.get_by_role("button", name="hidden").press("Enter")
    page.get_by_role("group", name="Update / weight: hidden").wait_for()
    assert "0.1" in page.get_by_role("row", name="hidden 100").inner_text()
    assert f"Once {MARKUP}" in page.locator(".texts").inner_text()
    page.locator("summary", has_text="Histograms").press("Enter")
    page.get_by_role("img", name="Weights of hidden.weight: 100 elements").wait_for()
    place = page.get_by_role("slider", name="Time of the histograms")
    place.press("Home")
    assert "1 of 3" in page.locator("details", has_text="Histograms").inner_text()
    light = page.screenshot()
    dark = open_page(served.address, color_scheme="dark")
    dark.get_by_role("group", name="Loss").wait_for()
    assert brightness(light) > 0.85 > 0.35 > brightness(dark.screenshot())
    narrow = open_page(served.address, width=390)
    narrow.get_by_role("group", name="Loss").wait_for()
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390


def legend(page: Page) -> list[list[str]]:
    """Return the cells of the legend of the loss."""
    rows = page.locator("section.chart").filter(has_text="Loss").locator(".legend tbody tr").all_inner_texts()
    return [[cell.strip() for cell in row.split("\t")] for row in rows]


def test_the_cursor_shows_the_point_of_its_dot_and_moves_nothing(served: Served, open_page: OpenPage) -> None:
    # The training has a point at each step, the validation at every fiftieth.
    write(
        served.runs / "run", START, *(values(step, loss=1000.0 + step) for step in range(1, 101)),
        values(50, validation_loss=5050.0), values(100, validation_loss=5100.0),
    )  # fmt: skip
    page = open_page(served.address)
    chart = page.get_by_role("group", name="Loss")
    chart.wait_for()
    layout = """() => [...document.querySelectorAll('.chart, .plot, .legend td')].map((node) => {
      const { x, y, width, height } = node.getBoundingClientRect();
      return [x, y, width, height].map(Math.round).join();
    })"""
    before = page.evaluate(layout)
    box = page.locator(".u-over").first.bounding_box()
    assert box is not None
    for share, step, nearest in ((0.4, 41, 50), (0.9, 90, 100)):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 60)
        (_, training, _), (_, validation, place) = legend(page)
        shown = page.locator(".chart .at").first.inner_text()
        assert int(shown.removeprefix("step ")) == pytest.approx(step, abs=1)
        assert training == f"{1000 + int(shown.removeprefix('step ')):,}"
        assert (validation, place) == (f"{5000 + nearest:,}", f"at step {nearest}")
        # The dot of the validation lies at the place of that point.
        dots = page.locator(".u-cursor-pt")
        left = dots.nth(dots.count() - 1).evaluate("dot => dot.getBoundingClientRect().x + dot.offsetWidth / 2")
        assert left == pytest.approx(box["x"] + (nearest - 1) / 99 * box["width"], abs=2.0)
    assert page.evaluate(layout) == before


def test_smoothing_leaves_few_points_as_they_are_and_shows_both_numbers(served: Served, open_page: OpenPage) -> None:
    write(
        served.runs / "run", START, *(values(step, loss=float(step % 2)) for step in range(1, 101)),
        *(values(step, validation_loss=step / 100) for step in (25, 50, 75, 100)),
    )  # fmt: skip
    page = open_page(served.address)
    page.get_by_role("group", name="Loss").wait_for()
    page.get_by_role("slider", name="Smoothing").fill("0.9")
    heads = page.locator(".legend thead th").all_inner_texts()
    assert heads[:3] == ["Line", "Value", "Smoothed"]
    (_, value, smoothed, _), (_, validation, unsmoothed, _) = legend(page)
    assert value == "0" and 0.4 < float(smoothed) < 0.6
    assert validation == "1" and unsmoothed == "\N{EN DASH}"


def test_points_that_join_steps_show_their_range(served: Served, open_page: OpenPage) -> None:
    joined = POINTS | {"means": {"loss": [1.0, 1.0]}}
    painted: list[float] = []
    for spread in ({}, {"low": {"loss": [0.5, 0.5]}, "high": {"loss": [1.5, 1.5]}}):
        write(served.runs / f"run{len(painted)}", START | {"name": "run"}, joined | spread)
        page = open_page(served.address)
        page.get_by_role("group", name="Loss").wait_for()
        painted.append(
            page.locator(".chart canvas").first.evaluate(
                """canvas => {
                  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                  return data.filter((_, i) => i % 4 === 3 && data[i] > 0).length / (data.length / 4);
                }"""
            )
        )
    assert painted[0] < 0.1 and painted[1] > 0.3


def test_many_points_are_drawn_at_once(served: Served, open_page: OpenPage) -> None:
    for name in ("first", "second"):
        write(served.runs / name, START, *(values(step, loss=1.0 / step) for step in range(1, 5_001)))
    page = open_page(served.address)
    page.get_by_role("group", name="Loss").wait_for()
    page.wait_for_function("() => document.querySelectorAll('#runs .progress')[1]?.textContent.includes('step 5,000')")
    assert page.locator(".legend tbody tr").all_inner_texts() == ["first\t2e-4\t", "second\t2e-4\t"]
    assert os.fspath(served.runs / "first") in (page.locator("#runs li").last.get_attribute("title") or "")
