"""Pages of one self-contained HTML file: the template, and data and code embedded safely."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

from wyrm.support.texts import encodable

# Styles and scripts that every page starts with.
_STYLES, _SCRIPTS = ("page.css",), ("page.js",)


@cache
def asset(package: str, name: str) -> str:
    """Return the text of a file in the folder `static` of a package."""
    return (resources.files(package) / "static" / name).read_text(encoding="utf-8")


def embedded_json(data: object) -> str:
    """Return data as JSON that a script element may hold, whatever its texts are.

    No text can end the element or start a comment: `<` is written as an escape, and so is all that is not ASCII. Raises
    `ValueError` for NaN and infinity, which JSON lacks.

    >>> print(embedded_json({"name": "</script>"}))
    {"name":"\\u003c/script>"}
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def html_page(
    title: str,
    *,
    body: str,
    data: Mapping[str, object],
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    libraries: Sequence[str] = (),
    connects: bool = False,
) -> str:
    """Return a page as one HTML document that loads nothing else.

    `body` is HTML. `data` maps the ids of script elements to what `readData(id)` returns to the scripts. `styles`,
    `scripts` and `libraries` are source texts: the scripts are one module, after `page.js`, and each library is an
    element of its own before it. With `connects`, the page may fetch from the server that it comes from. A policy in
    the page forbids every other request, and every script but these.
    """
    module = "\n".join([*(asset("wyrm.view", name) for name in _SCRIPTS), *scripts])
    style = "\n".join([*(asset("wyrm.view", name) for name in _STYLES), *styles])
    code = [*((library, "") for library in libraries), (module, ' type="module"')]
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text, _ in code)
    sources = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    policy = f"{sources}; connect-src 'self'" if connects else sources
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}; base-uri 'none'; form-action 'none'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(encodable(title))}</title>",
        f"<style>\n{style}\n</style>",
        "</head>",
        "<body>",
        '<noscript><p class="failure">This page is drawn by JavaScript, which is switched off here.</p></noscript>',
        body,
        *(
            f'<script type="application/json" id="{escape(name)}">{embedded_json(value)}</script>'
            for name, value in data.items()
        ),
        *(f"<script{kind}>{text}</script>" for text, kind in code),
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(parts)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
