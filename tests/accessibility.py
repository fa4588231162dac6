"""Findings of axe about a page: what a reader with a keyboard, a screen reader or weak sight would miss.

`python -m tests.accessibility FOLDER` checks pages of the site that stands in a folder, light, dark and as narrow as a
phone, and fails if there is a finding.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.browser import launched

if TYPE_CHECKING:
    from playwright.sync_api import Page

# One page of each kind: text, tables, code, a notebook, generated signatures, an index, a search.
KINDS = (
    "index", "start/from-pytorch", "tour/training", "how-to/slow", "learn/index", "learn/examples/classify_images",
    "understand/types", "benchmarks", "reference/index", "reference/api/data", "reference/error-index", "genindex",
    "search",
)  # fmt: skip


@cache
def script() -> str | None:
    """Return axe's program, which a package carries; None where it is not installed."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        return None
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def findings(page: Page) -> list[str]:
    """Return what axe finds on a page, a line for each element; skip the test where axe is not installed."""
    axe = script()
    if axe is None:
        pytest.skip("axe-playwright-python is not installed")
    page.evaluate(f"{axe}; 0")
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{rule['id']}: {rule['help']}: {place['html'][:200]}"
        for rule in found["violations"]
        for place in rule["nodes"]
    ]


def check_site(folder: Path) -> list[str]:
    """Return the findings on one page of each kind of the site in a folder."""
    from playwright.sync_api import sync_playwright

    found: list[str] = []
    with sync_playwright() as running:
        browser = launched(running)
        for name, scheme, width in product(KINDS, ("light", "dark"), (1280, 390)):
            context = browser.new_context(
                color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 900}
            )
            page = context.new_page()
            page.goto((folder / f"{name}.html").resolve().as_uri())
            found += [f"{name}, {scheme}, {width} pixels: {line}" for line in findings(page)]
            context.close()
        browser.close()
    return found


if __name__ == "__main__":
    problems = check_site(Path(sys.argv[1]))
    sys.stdout.write("".join(f"{problem}\n" for problem in problems) or "axe has no findings\n")
    sys.exit(bool(problems))
