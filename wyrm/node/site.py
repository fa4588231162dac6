"""Where in the user's code nodes are built, and which of them."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple


class Site(NamedTuple):
    """The user's file and line that made a node."""

    filename: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.filename).name}:{self.line}"

    @property
    def source(self) -> str:
        """The text of the line, empty where the file cannot be read."""
        return linecache.getline(self.filename, self.line).strip()


_site_override: ContextVar[Site | None] = ContextVar("_site_override", default=None)


def user_site() -> Site:
    """The innermost line outside wyrm that is running now."""
    override = _site_override.get()
    if override is not None:
        return override
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "wyrm":
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


@contextmanager
def made_at(site: Site) -> Iterator[None]:
    """Within it, new nodes carry `site`: a gradient's nodes carry the line of the node they differentiate."""
    token = _site_override.set(site)
    try:
        yield
    finally:
        _site_override.reset(token)


_built: ContextVar[list[Any] | None] = ContextVar("_built", default=None)


@contextmanager
def building() -> Iterator[list[Any]]:
    """Within it, the list that it gives gets every node that is built."""
    nodes: list[Any] = []
    around = _built.get()
    token = _built.set(nodes)
    try:
        yield nodes
    finally:
        _built.reset(token)
        if around is not None:
            around += nodes


def built_nodes() -> list[Any] | None:
    """The list that nodes go into as they are built, if there is one."""
    return _built.get()
