"""The graph page as HTML: the data of a graph, and the code that draws and explores it in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wyrm.view.html import asset, html_page

# In the order of their dependencies; `static/README.md` says why dagre lays out the graph.
_SCRIPTS = ("model", "layout", "columns", "shapes", "draw", "view", "search", "details", "program", "main")


def graph_html(data: Mapping[str, Any]) -> str:
    """Return the page of a graph as one self-contained HTML document."""
    here = "wyrm.view"
    return html_page(
        data["title"],
        body=asset(here, "graph.html"),
        data={"graph": data},
        styles=[asset(here, "graph.css")],
        scripts=[asset(here, f"graph_{name}.js") for name in _SCRIPTS],
        libraries=[asset(here, "dagre.min.js")],
    )
