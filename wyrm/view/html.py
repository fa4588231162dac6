"""HTML pages that a browser opens without a server and a network, such as the page of a graph."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wyrm.errors import OptionError
from wyrm.graph.axes import Dim
from wyrm.support.texts import encodable
from wyrm.view.graph_data import Shown, described

if TYPE_CHECKING:
    from wyrm.view.live import LiveProgram

# Styles and scripts that every page starts with.
_STYLES, _SCRIPTS = ("page.css",), ("page.js",)


@cache
def asset(package: str, name: str) -> str:
    """Return the text of a file in the folder `static` of a package."""
    return (resources.files(package) / "static" / name).read_text(encoding="utf-8")


def embedded_json(data: object) -> str:
    """Return data as JSON that a script element can hold.

    `<` and all characters beyond ASCII are escaped, so that no text ends the element or starts a comment. Raise
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
    modules: Sequence[str] = (),
    connects: bool = False,
) -> str:
    """Return a page as one HTML document that loads nothing else.

    `body` is HTML. `data` maps ids to values, which scripts read by `readData(id)`. `styles`, `scripts` and `libraries`
    are source texts: `page.js` and the scripts become one module, and each library is an element before it. So is each
    of `modules`, which may compile WebAssembly. With `connects`, the page may fetch from its own server. A policy in
    the page forbids all other requests and scripts.
    """
    module = "\n".join([*(asset("wyrm.view", name) for name in _SCRIPTS), *scripts])
    style = "\n".join([*(asset("wyrm.view", name) for name in _STYLES), *styles])
    code = [*((library, "") for library in libraries), *((text, ' type="module"') for text in (*modules, module))]
    allowed = [f"'sha256-{_sha256(text)}'" for text, _ in code] + ["'wasm-unsafe-eval'"] * bool(modules)
    hashes = " ".join(allowed)
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


def page(
    shown: Shown,
    path: str | os.PathLike[str],
    *,
    live: bool = False,
    sizes: Mapping[type[Dim], int] | None = None,
) -> Path:
    """Write a page of a graph to one HTML file, which needs no network, and return its path.

    `shown` is a node, a sequence of nodes, or a program of `wy.compile`. Nodes are grouped by the modules whose calls
    built them, and equal layers in a row are one box at first. A node shows its formula, axes, bytes and the line of
    code that made it, and the nodes of its gradient, if one output is a scalar that has one. The page of a program
    shows also which nodes its loops and kernels compute, and when its arrays are in memory.

    With `live`, the page carries the graph as WebAssembly, with its parameters: a reader types or drags the values of
    inputs, and sees the value of every node, gradients included, outside the bodies of loops. Inputs begin with the
    data that they hold, or 0; the axis of the batch has one row. `sizes` has the sizes of other axes without one, by
    class. `live` needs a linker, as `wy.export` for "wasm32" does: `pip install "wyrm-autodiff[wasm]"`.

    Raises:
        TypeError: `shown` is something else, such as a module: give it the module's result. Or `path` is no path.
        OptionError: the graph has more than 100,000 nodes, or `path` is a folder, or in a folder that does not exist.
            With `live`, the parameters have more than 64 MiB, or an op has no native form.
        ShapeError: with `live`, an axis besides that of the batch has no size.

    >>> x = wy.Parameter([1.0, 2.0], name="x")
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wy.view.page(x.square().sum(), f"{folder}/model.html").name
    'model.html'
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f'the path of a page is text or a Path, not {type(path).__name__}: page(loss, "model.html")')
    target = Path(path)
    if target.is_dir():
        raise OptionError(f"{target} is a folder: give the page a file name, such as {target / 'model.html'}")
    if not target.parent.is_dir():
        raise OptionError(f"the folder {target.parent} does not exist: create it, or give the page another path")
    if sizes is not None and not live:
        raise OptionError("sizes are for a live page: page(loss, path, live=True, sizes={...})")
    graph, data = described(shown)
    carried = None
    if live:
        from wyrm.view.live import carried_program

        carried = carried_program(graph, {} if sizes is None else sizes)
    target.write_text(graph_html(data, carried), encoding="utf-8")
    return target


def open(shown: Shown) -> Path:  # used as `wy.view.open`
    """Write a page of a graph, see `page`, to a temporary folder, open it in the browser, and return its path.

    Raise the errors of `page`, and `OptionError` where no browser can be opened.
    """
    import tempfile
    import webbrowser

    path = page(shown, Path(tempfile.mkdtemp(prefix="wyrm-")) / "graph.html")
    if not webbrowser.open(path.as_uri()):
        raise OptionError(f"no browser can be opened here; the page is {path}")
    return path


# Each script may use those before it; `static/README.md` says why dagre lays out the graph.
_GRAPH_SCRIPTS = (
    "model", "layout", "columns", "shapes", "draw", "view", "map", "save", "search", "details", "program", "main"
)  # fmt: skip


def graph_html(data: Mapping[str, Any], carried: LiveProgram | None = None) -> str:
    """Return the page of a graph, which may carry a program, as one self-contained HTML document."""
    here = "wyrm.view"
    # Before the main script; see `wyrm.view.live`.
    names = _GRAPH_SCRIPTS if carried is None else (*_GRAPH_SCRIPTS[:-1], "live", _GRAPH_SCRIPTS[-1])
    return html_page(
        data["title"],
        body=asset(here, "graph.html"),
        data={"graph": data, "carried": None if carried is None else carried.data},
        styles=[asset(here, "graph.css")],
        scripts=[asset(here, f"graph_{name}.js") for name in names],
        libraries=[asset(here, "dagre.min.js")],
        modules=[] if carried is None else [carried.script],
    )
