"""A graph as a page to look at: one HTML file that a browser opens, without a server and a network."""

from __future__ import annotations

import os
from pathlib import Path

from wyrm.errors import OptionError
from wyrm.view.graph_data import Shown, graph_data
from wyrm.view.graph_page import graph_html


def page(shown: Shown, path: str | os.PathLike[str]) -> Path:
    """Write a page of a graph to one HTML file, which needs no network, and return its path.

    `shown` is a node, a sequence of nodes, or a program of `wy.compile`. Nodes are grouped by the modules whose calls
    built them, and equal layers in a row are one box at first. A node shows its formula, axes, bytes and the line of
    code that made it, and the nodes of its gradient, if one output is a scalar that has one. The page of a program
    shows also which nodes its loops and kernels compute, and when its arrays are in memory.

    Raises:
        TypeError: `shown` is something else, such as a module: give it the module's result. Or `path` is no path.
        OptionError: the graph has more than 100,000 nodes, or `path` is a folder, or in a folder that does not exist.

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
    target.write_text(graph_html(graph_data(shown)), encoding="utf-8")
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
