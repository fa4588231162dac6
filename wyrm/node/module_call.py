"""`ModuleCall`, which new nodes record, so that a graph shows which module built which node."""

from __future__ import annotations

from typing import Any


class ModuleCall:
    """A call of a module: the module's path in the outermost module, its class, and the call around it.

    Each call is an object of its own, so two calls of a shared module are told apart. The nodes that it builds keep
    it; hence it refers to the module, and to the paths of the modules inside, only while it runs.
    """

    __slots__ = ("kind", "module", "outer", "path", "paths")

    def __init__(self, path: str, kind: str, outer: ModuleCall | None, module: object = None) -> None:
        self.path, self.kind, self.outer, self.module = path, kind, outer, module
        self.paths: dict[int, str] | None = None

    def finish(self) -> None:
        """Forget the module."""
        self.module = self.paths = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ModuleCall, (self.path, self.kind, self.outer)

    def __repr__(self) -> str:
        return f"<call of {self.kind}{f' {self.path}' if self.path else ''}>"
