"""The browser that tests share notices broken pages."""

from __future__ import annotations

from pathlib import Path

from tests.browser import OpenPage, brightness, likeness


def test_pages_follow_the_color_scheme(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<style>:root { color-scheme: light dark }</style><h1>Wyrm</h1>")
    light, dark = open_page(path).screenshot(), open_page(path, color_scheme="dark").screenshot()
    assert brightness(light) > 0.9 > 0.3 > brightness(dark)
    assert likeness(light, light) > 0.999 and likeness(light, dark) < -0.9


def test_problems_of_a_page_are_collected(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<img src='http://127.0.0.1:9/none.png'><script>console.error('early'); throw Error('late')</script>"
    )
    open_page(path)
    collected = "\n".join(open_page.problems)
    assert "console: early" in collected and "page error: late" in collected and "request to http" in collected
    open_page.problems.clear()
    open_page(path, expected=("early", "late", "none.png", "ERR_CONNECTION_REFUSED", "ERR_UNSAFE_PORT"))
