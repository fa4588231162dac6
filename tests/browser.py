"""Pages of the project in headless Chromium, for tests.

Playwright drives the system's Chromium. Tests that need either are skipped where it is absent. The fixtures reach every
test through `tests/conftest.py`; a test of a file that wyrm writes reads:

    def test_page(open_page: OpenPage, tmp_path: Path) -> None:
        page = open_page(wy.view.page(loss, tmp_path / "model.html"))
        page.get_by_role("button", name="Expand").click()
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.browser import chromium, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request


# The scope is the module, not the session: until Playwright stops, its event loop counts as running in this thread,
# and `asyncio.run` in the tests of other modules would fail.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium, which the tests of a module share."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if chromium() is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as running:
        found = launched(running)
        yield found
        found.close()


class OpenPage:
    """Opens pages, each in a browser context of its own, and collects what goes wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self.problems: list[str] = []  # console errors, page errors, requests to another origin
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def __call__(
        self,
        target: Path | str,
        *,
        width: int = 1280,
        height: int = 800,
        color_scheme: Literal["light", "dark"] = "light",
        reduced_motion: Literal["reduce", "no-preference"] = "reduce",
        expected: tuple[str, ...] = (),
    ) -> Page:
        """Open a file or a URL and return the page once it is loaded.

        Problems that hold a text of `expected` do not fail the test.
        """
        url = target.resolve().as_uri() if isinstance(target, Path) else target
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=color_scheme, reduced_motion=reduced_motion
        )
        context.set_default_timeout(15_000)
        self._contexts.append(context)

        def add(problem: str) -> None:
            if not any(text in problem for text in expected):
                self.problems.append(problem)

        def request(sent: Request) -> None:
            if urlsplit(sent.url).scheme not in ("data", "blob", "about") and _origin(sent.url) != _origin(url):
                add(f"request to {sent.url}")

        context.on("console", lambda message: add(f"console: {message.text}") if message.type == "error" else None)
        context.on("weberror", lambda error: add(f"page error: {error.error}"))
        context.on("request", request)
        page = context.new_page()
        page.goto(url)
        return page

    def close(self) -> None:
        """Close every page."""
        for context in self._contexts:
            context.close()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return url.partition("#")[0] if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages; after the test, fails it for a console error, a page error or a request to another origin."""
    pages = OpenPage(browser)
    yield pages
    pages.close()
    assert not pages.problems, "\n".join(pages.problems)


def brightness(png: bytes) -> float:
    """Return the mean brightness of a screenshot, from 0 (black) to 1 (white)."""
    return float(_thumbnail(png).mean())


def likeness(left: bytes, right: bytes) -> float:
    """Return the correlation of two screenshots, scaled to 64 by 40 grey pixels: 1 for the same picture."""
    return float(np.corrcoef(_thumbnail(left).ravel(), _thumbnail(right).ravel())[0, 1])


def _thumbnail(png: bytes) -> NDArray[np.float64]:
    from PIL import Image

    return np.asarray(Image.open(BytesIO(png)).convert("L").resize((64, 40)), dtype=np.float64) / 255.0
