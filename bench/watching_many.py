"""How long the page of runs takes for many runs.

    python bench/watching_many.py

Writes 500 runs of 100,000 values each, reads their summaries as the server does, and prints the processor's time of
both for one run. Where playwright and Chromium are installed, it opens the page, shows all runs, and prints the seconds
until the table and the curves are complete, and those of a new axis, a filter and an order.
"""

from __future__ import annotations

import importlib.util
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.browser import chromium, launched
from wyrm.watch.points import Points
from wyrm.watch.records import EVENTS, Lines
from wyrm.watch.runs import Runs
from wyrm.watch.server import Summaries, listening, server_of

RUNS, STEPS = 500, 100_000


def write(folder: Path) -> None:
    """Write runs of a falling noisy loss with options that differ."""
    random = np.random.default_rng(0)
    for number in range(RUNS):
        rate, pace = float(10 ** random.uniform(-4, 0)), float(random.uniform(0.8, 1.2))
        place = {"time": 1_700_000_000 + number, "elapsed": 0.0, "epoch": 0.0, "step": 0}
        (folder / f"run{number:03d}").mkdir(parents=True)
        lines = Lines(folder / f"run{number:03d}" / EVENTS)
        config = {"learning_rate": rate, "optimizer": ("SGD", "Adam")[number % 2]}
        start = {
            "format": 2, "id": str(number), "name": "run", "engine": "native", "epochs": 100, "steps": None,
            "rows": None, "modules": [], "sizes": [], "parameters": [], "config": config,
        }  # fmt: skip
        points = Points(affords=lambda _: True)
        losses = np.exp(-np.arange(STEPS) / 20_000 * (0.2 + rate)) + 0.1 * random.random(STEPS)
        for step, loss in enumerate(losses.tolist(), 1):
            points.add((step, step / 1000, 1e-3 * step * pace), {"loss": loss})
        last = {**place, "step": STEPS}
        lines.write([{**place, "kind": "start", **start}])
        lines.write({**last, "kind": "points", **record} for record in points.take())
        lines.write([{**last, "kind": "end", "stopped": "completed"}])
        lines.close()


def timed(action: Callable[[], object]) -> float:
    """Return the seconds of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def show(address: str) -> None:
    """Open the page and print how long it takes."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser: Any = launched(playwright)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        frame = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"

        def pressed(name: str) -> None:
            page.get_by_role("button", name=name, exact=True).press("Enter")
            page.evaluate(frame)

        print(f"first curve after {timed(lambda: first(page, address)):.1f} s")
        print(f"table complete after {timed(lambda: completed(page)):.1f} s more")
        page.get_by_label("Show all runs of the table").press("Space")
        print(f"all curves after {timed(page.get_by_text(f'and {RUNS - 16} more lines').wait_for):.1f} s")
        for name in ("Time", "Log scale"):
            print(f"{name}: {timed(partial(pressed, name)):.2f} s")
        filtering = page.get_by_label("Filter runs")
        print(f"filter: {timed(lambda: (filtering.fill('optimizer=Adam loss<0.3'), page.evaluate(frame))):.2f} s")
        print(f"order: {timed(lambda: pressed('loss')):.2f} s")
        browser.close()


def first(page: Any, address: str) -> None:
    """Open the page and wait for its first curve."""
    page.goto(address)
    page.get_by_role("group", name="Loss").wait_for()


def completed(page: Any) -> None:
    """Wait until each row of the table is complete."""
    rows = "(rows) => rows.filter((row) => row.innerText.includes('completed')).length"
    while page.locator("table.runs tbody tr").evaluate_all(rows) < RUNS:
        page.wait_for_timeout(100)


def main() -> None:
    """Write, read, and show."""
    with tempfile.TemporaryDirectory() as name:
        start = time.process_time()
        write(Path(name))
        print(f"written in {1e3 * (time.process_time() - start) / RUNS:.0f} ms of the processor a run")
        runs, start = Runs([name])().values(), time.process_time()
        Summaries(seconds=float("inf"))(runs, 0)
        print(f"read in {1e3 * (time.process_time() - start) / RUNS:.1f} ms of the processor a run")
        if chromium() is None or importlib.util.find_spec("playwright") is None:
            return
        with listening(0) as listener:
            server = server_of(Runs([name]), "token")
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            show(f"http://127.0.0.1:{listener.getsockname()[1]}/token/")
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
