"""Where nodes are built: the line of the user's code, the call of a module, and the block of code."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from itertools import islice
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from weakref import ref

from wyrm.support.texts import encodable

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode


# A name, or the name of a list and a position in it.
Place: TypeAlias = str | tuple[str, int]


class ModuleCall:
    """A call of a module: the module's class and place in the module that holds it, and the calls around it.

    `outer` is the call around it, and `holder` the call of the module that holds the called one, mostly the same. Each
    call is an object of its own, so two calls of a shared module are told apart. The nodes that it builds keep it;
    hence it refers to the module, by `module`, only while the call runs. The outermost call has a weak reference to it
    in `called`, which stays, and in `evaluated` one to a layer that was in evaluation, for `wyrm.graph.modes`. Lookups
    by identity are cached while the call runs: `listed` has the names of the module's lists with the positions of their
    members, and `inner` the paths of all modules inside.
    """

    __slots__ = ("called", "evaluated", "holder", "inner", "kind", "listed", "module", "outer", "place")
    module: object
    called: ref[Any] | None
    evaluated: ref[Any] | None
    listed: list[tuple[str, dict[int, int]]] | None
    inner: dict[int, str] | None

    def __init__(
        self, place: Place, kind: str, outer: ModuleCall | None, holder: ModuleCall | None, module: object = None
    ) -> None:
        self.place: Place = place
        self.kind: str = kind
        self.outer: ModuleCall | None = outer
        self.holder: ModuleCall | None = holder
        self.module = module
        self.called = ref(module) if outer is None and module is not None else None
        self.listed = self.inner = self.evaluated = None

    def finish(self) -> None:
        """Forget the module, once the call has ended."""
        self.module = self.listed = self.inner = None

    @property
    def name(self) -> str:
        """The place of the module in the one that holds it, such as `blocks[3]`; empty for the outermost module."""
        return self.place if isinstance(self.place, str) else "{}[{}]".format(*self.place)

    @property
    def path(self) -> str:
        """The places from the outermost module on, such as `blocks[3].attention.qkv`."""
        names, call = list[str](), self
        while call.holder is not None:
            names.append(call.name)
            call = call.holder
        return ".".join(reversed(names))

    def __reduce__(self) -> tuple[Any, ...]:
        return ModuleCall, (self.place, self.kind, self.outer, self.holder)

    def __repr__(self) -> str:
        return f"<call of {self.kind}{f' {self.path}' if self.path else ''}>"


class SourceLocation(NamedTuple):
    """The user's file and line that made a node."""

    filename: str
    line: int

    def __str__(self) -> str:
        return encodable(f"{self.filename.rpartition(os.sep)[2]}:{self.line}")

    @property
    def source(self) -> str:
        """The text of the line; empty if the file cannot be read."""
        return encodable(linecache.getline(self.filename, self.line).strip())


# A frame's code and instruction offset, from which the line is found only when it is asked for, or a file and a line;
# then the innermost running call of a module.
Origin: TypeAlias = tuple[CodeType | str, int, ModuleCall | None]


def location_of(origin: Origin) -> SourceLocation:
    """Return the file and line of an origin."""
    code, offset, _ = origin
    if isinstance(code, str):
        return SourceLocation(code, offset)
    lines = (line for start, stop, line in code.co_lines() if start <= offset < stop and line is not None)
    return SourceLocation(code.co_filename, next(lines, code.co_firstlineno))


def called_at(origin: Origin) -> str:
    """Return what the user's code calls there as an attribute, as in "wy.sort"; empty for modules and bare names."""
    code, offset, call_of_module = origin
    if isinstance(code, str):
        return ""
    first, last, start, end = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if first is None or last is None or start is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, line).encode() for line in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        call = ast.parse(b"".join(lines), mode="eval").body
    except SyntaxError:  # the file has changed
        return ""
    function = call.func if isinstance(call, ast.Call) else None
    if not isinstance(function, ast.Attribute) or (call_of_module and call_of_module.name == function.attr):
        return ""
    return ast.unparse(function)


def place_of(function: Callable[..., object]) -> str:
    """Return the file and line of a function or method, for messages; empty for one that has no Python code."""
    code: CodeType | None = getattr(function, "__code__", None)
    return "" if code is None else encodable(f"{code.co_filename}:{code.co_firstlineno}")


def portable(origin: Origin) -> Origin:
    """Return the origin with its file and line, which can be pickled."""
    location = location_of(origin)
    return location.filename, location.line, origin[2]


# The origin of new nodes, or the running call of a module, to which the user's line is added.
_place: ContextVar[Origin | ModuleCall | None] = ContextVar("_place", default=None)
_OURS = frozenset(["wyrm", "sklearn", "joblib"])
# Code objects of these by identity: to look each frame up in its globals took a third of the time of building a node.
# They are kept alive here, so that no other code takes their identity.
_ours: dict[int, CodeType] = {}
# The user's code that built the last node, the call of a module around it, and the origins in them: a loop builds many
# nodes at the same lines, and shared origins leave fewer objects to Python's garbage collector. In one tuple, because
# threads replace all at once.
_last: tuple[CodeType | None, ModuleCall | None, dict[int, Origin]] = (None, None, {})


def user_origin(depth: int = 2) -> Origin:
    """Return the innermost running line outside wyrm; the nearest frames are skipped, because they belong to wyrm."""
    global _last
    call = _place.get()
    if call is not None and isinstance(call, tuple):
        return call
    try:
        frame: FrameType = sys._getframe(depth)
    except ValueError:  # a thread whose first function is wyrm's
        frame = sys._getframe(2)
    code = frame.f_code
    last, within, origins = _last
    if code is last and call is within and (known := origins.get(frame.f_lasti)) is not None:
        return known
    while True:
        code = frame.f_code
        if id(code) not in _ours:
            last, within, origins = _last
            if code is not last or call is not within:
                if code is not last and _is_ours(frame):
                    _ours[id(code)] = code
                    continue
                origins = {}
                _last = code, call, origins
            offset = frame.f_lasti
            origin = origins.get(offset)
            if origin is None:
                origin = origins[offset] = code, offset, call
            return origin
        outer = frame.f_back
        if outer is None:
            return code, frame.f_lasti, call
        frame = outer


def _is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of wyrm, or of the libraries that call its estimators."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in _OURS


def raised_at(error: BaseException) -> SourceLocation | None:
    """Return the innermost line outside wyrm that an error has passed since it was raised; None if there is none."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if not _is_ours(trace.tb_frame):
            found = SourceLocation(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def user_level() -> int:
    """Return the `stacklevel` with which the caller's `warnings.warn` names the innermost line outside wyrm."""
    frame, level = sys._getframe(1), 1
    while _is_ours(frame) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level


def user_location() -> SourceLocation:
    """Return the innermost running line outside wyrm, as a file and a line."""
    return location_of(user_origin())


class located_at:
    """Gives new nodes this origin: a gradient's nodes carry the line and the module of the node they differentiate.

    `move` changes the origin; in a long walk that costs a fifth of a new context.
    """

    __slots__ = ("_origin", "_token")
    _token: Token[Origin | ModuleCall | None]

    def __init__(self, origin: Origin | None) -> None:
        self._origin = origin

    def __enter__(self) -> located_at:
        self._token = _place.set(self._origin)
        return self

    def __exit__(self, *_: object) -> None:
        _place.reset(self._token)

    # Give new nodes this origin from now on. A builtin, because a gradient calls it for each node.
    move = staticmethod(_place.set)


# Read the running call of a module, or the origin that `located_at` gives; start a call, and end it by the token.
running: Final = _place.get
start_call: Final = _place.set
end_call: Final = _place.reset


class _Block(list["BaseNode"]):
    """The nodes that a block of code has built; `around` is the block that contains it."""

    __slots__ = ("_known", "around")

    def __init__(self, around: _Block | None) -> None:
        super().__init__()
        self.around = around
        self._known: set[BaseNode] = set()

    def has(self, node: BaseNode) -> bool:
        """Return whether the block has built this node itself."""
        self._known.update(self[len(self._known) :])
        return node in self._known


_built: ContextVar[_Block | None] = ContextVar("_built", default=None)


@contextmanager
def building() -> Iterator[list[BaseNode]]:
    """Yield a list that receives every node built within the block."""
    around = _built.get()
    nodes = _Block(around)
    token = _built.set(nodes)
    try:
        yield nodes
    finally:
        _built.reset(token)
        if around is not None:
            around += nodes


# Returns the list that receives new nodes, if there is one. A builtin, because every new node calls it.
built_nodes: Final = _built.get

Built = TypeVar("Built", bound="BaseNode")


def built_beside(node: BaseNode, build: Callable[[], Built]) -> Built:
    """Return the node that `build` returns, recorded as built by the block that has built `node`, at the same line."""
    with located_at(node.origin):
        block = _built.get()
        if block is None:
            return build()
        token = _built.set(None)
        try:
            made = build()
        finally:
            _built.reset(token)
    while block is not None and not block.has(node):
        block = block.around
    if block is not None:
        block.append(made)
    return made
