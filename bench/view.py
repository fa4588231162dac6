"""Writing and opening graph pages: GPT-2 of 124 million parameters, and 10,000 nodes with and without modules."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import wyrm as wy
from bench.browser import launched
from bench.harness import Case, Measurement, timed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _gpt2() -> wy.Node:
    model = wy.nn.GPT2(wy.nn.GPT2Config())
    tokens, targets = (wy.IndexInput(dims=(8, 1024), name=name) for name in ("tokens", "targets"))
    return model.loss(tokens, targets)


class _Block(wy.nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = wy.nn.LayerNorm(width)
        self.first, self.second = wy.nn.Linear(width, width), wy.nn.Linear(width, width)

    def __call__(self, x: Any) -> Any:
        return x + self.second(self.first(self.norm(x)).gelu())


def _modules() -> wy.Node:
    """Return a loss whose two passes have about 10,000 nodes, in 290 blocks."""
    blocks = [_Block(8) for _ in range(290)]
    result: Any = wy.nn.Sequential(*blocks)(wy.Input(dims=(4, 8), name="x"))
    return result.square().mean()  # type: ignore[no-any-return]


def _flat() -> wy.Node:
    """Return a node of about 10,000 nodes without modules, and without a gradient."""
    x = wy.Input(np.ones(8, np.float32), name="x")
    node: Any = x
    for _ in range(3333):
        node = (node * 0.5).tanh() + x
    return node  # type: ignore[no-any-return]


def _writing(build: Callable[[], wy.Node]) -> Callable[[], Measurement]:
    node = build()
    path = Path(tempfile.mkdtemp()) / "page.html"
    return timed(lambda: wy.view.page(node, path))


@cache
def _browser() -> Browser:
    """Return headless Chromium; raise `ImportError` where it or Playwright is not installed."""
    from playwright.sync_api import sync_playwright

    return launched(sync_playwright().start())


def _opening(build: Callable[[], wy.Node]) -> Callable[[], Measurement]:
    """Return a round that opens the page until it has drawn the graph and answers to clicks."""
    browser = _browser()
    path = wy.view.page(build(), Path(tempfile.mkdtemp()) / "page.html")

    def once() -> Measurement:
        page = browser.new_page()
        page.goto(path.as_uri())
        drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
        milliseconds: float = page.evaluate(drawn)
        page.close()
        return Measurement(milliseconds / 1000)

    return once


def cases() -> list[Case]:
    """Three graphs: the time of writing the page, and of opening it in headless Chromium, from the start of loading."""
    graphs = (("GPT-2 124M", _gpt2, 1), ("10,000 nodes in modules", _modules, 3), ("10,000 nodes, flat", _flat, 3))
    return [
        Case(
            "view",
            f"{verb} the page of {name}",
            {"wyrm": partial(measure, build)},
            most=float(seconds),
            rounds=5,
            quick=False,
        )
        for name, build, seconds in graphs
        for verb, measure in (("write", _writing), ("open", _opening))
    ]
