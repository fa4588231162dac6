"""`ModuleCall`, which new nodes record, so that a graph shows which module built which node."""

from __future__ import annotations

from typing import Any, TypeAlias
from weakref import ref

# A name, or the name of a list and a position in it.
Place: TypeAlias = str | tuple[str, int]


class ModuleCall:
    """A call of a module: the module's class and place in the module that holds it, and the calls around it.

    `outer` is the call around it, and `holder` the call of the module that holds the called one, mostly the same. Each
    call is an object of its own, so two calls of a shared module are told apart. The nodes that it builds keep it;
    hence it refers to the module, by `module`, only while the call runs. The outermost call has a weak reference to it
    in `called`, which stays. Lookups by identity are cached while the call runs: `listed` has the names of the module's
    lists with the positions of their members, and `inner` the paths of all modules inside.
    """

    __slots__ = ("called", "holder", "inner", "kind", "listed", "module", "outer", "place")
    module: object
    called: ref[Any] | None
    listed: list[tuple[str, dict[int, int]]] | None
    inner: dict[int, str] | None

    def __init__(
        self, place: Place, kind: str, outer: ModuleCall | None, holder: ModuleCall | None, module: object = None
    ) -> None:
        self.place, self.kind, self.outer, self.holder, self.module = place, kind, outer, holder, module
        self.called = ref(module) if outer is None and module is not None else None
        self.listed = self.inner = None

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
