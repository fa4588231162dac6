"""Pages as one file: an HTML file, with its style sheets, scripts and data written into it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_STYLE = re.compile(r'<link rel="stylesheet" href="([\w.-]+)">')
_SCRIPT = re.compile(r'<script src="([\w.-]+)"></script>')
_DATA = re.compile(r'<script type="application/json" id="([\w-]+)"></script>')
_TITLE = re.compile(r"<title>.*?</title>")


def inlined(page: Path, title: str, data: Mapping[str, object]) -> str:
    """Return a page in which the files and the data that it names are written out.

    `page` is an HTML file that names style sheets and scripts of its own folder, or of `wyrm/view/static`, by the tags
    `<link rel="stylesheet" href="page.css">` and `<script src="page.js"></script>`. `data` has the value, which JSON
    can hold, of each `<script type="application/json" id="...">`. `title` replaces that of the page.
    """

    def text(name: str) -> str:
        own = page.parent / name
        return (own if own.exists() else STATIC / name).read_text(encoding="utf-8")

    def style(found: re.Match[str]) -> str:
        return f"<style>\n{text(found[1])}</style>"

    def script(found: re.Match[str]) -> str:
        # The end of a script that a string in it holds would end the script.
        return f"<script>\n{text(found[1]).replace('</script', '<\\/script')}</script>"

    def value(found: re.Match[str]) -> str:
        return f'<script type="application/json" id="{found[1]}">{json_of(data[found[1]])}</script>'

    written = _TITLE.sub(lambda _: f"<title>{html.escape(title)}</title>", page.read_text(encoding="utf-8"), count=1)
    # The data last: what they hold is no tag of the page.
    return _DATA.sub(value, _SCRIPT.sub(script, _STYLE.sub(style, written)))


def json_of(value: object) -> str:
    """Return JSON that can stand in a script of a page: no text in it ends the script or starts a comment.

    >>> json_of({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
