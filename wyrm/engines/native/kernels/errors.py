"""The errors of the kernel compiler."""

from __future__ import annotations


class NotCompiled(Exception):
    """Code outside the kernel language; `where` names the function, file and line."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{message} ({where})" if where else message)
        self.message, self.where = message, where


class UnknownKind(NotCompiled):
    """A read of a variable whose kind type inference does not know yet; a later pass may know it."""
