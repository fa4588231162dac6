"""Where in the user's code nodes are built, and which of them."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias


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


# A line as a running frame has it, its code and the place in that: where that is in a file is worked out when asked.
Place: TypeAlias = Site | tuple[CodeType, int]


def site_of(place: Place) -> Site:
    """The file and line of a place."""
    if isinstance(place, Site):
        return place
    code, offset = place
    lines = (line for start, stop, line in code.co_lines() if start <= offset < stop and line is not None)
    return Site(code.co_filename, next(lines, code.co_firstlineno))


_override: ContextVar[Place | None] = ContextVar("_override", default=None)
# Code that is known to be wyrm's, by its identity: to look that up in the globals of each frame took a third of the
# time of building a node. It is kept here, so that no other code takes its identity; users' code is not, but the last.
_ours: dict[int, CodeType] = {}
_last: CodeType | None = None


def user_place() -> Place:
    """The innermost line outside wyrm that is running now, as seen by the caller of a function of wyrm."""
    global _last
    override = _override.get()
    if override is not None:
        return override
    frame: FrameType = sys._getframe(2)
    while True:
        code = frame.f_code
        if code is _last:
            break
        if id(code) not in _ours:
            if frame.f_globals.get("__name__", "").partition(".")[0] != "wyrm":
                _last = code
                break
            _ours[id(code)] = code
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    return code, frame.f_lasti


def user_site() -> Site:
    """The innermost line outside wyrm that is running now, as a file and a line."""
    return site_of(user_place())


class made_at:  # noqa: N801  # used as a function is
    """Within it, new nodes carry this place: a gradient's nodes carry the line of the node they differentiate.

    `move` goes on to another place: in a long walk that costs a fifth of a new context.
    """

    __slots__ = ("_place", "_token")
    _token: Token[Place | None]

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def __enter__(self) -> made_at:
        self._token = _override.set(self._place)
        return self

    def __exit__(self, *_: object) -> None:
        _override.reset(self._token)

    def move(self, place: Place) -> None:
        """From now on, new nodes carry this place."""
        _override.set(place)


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
