"""What the compiler says of code that it has no form for."""

from __future__ import annotations


class NotCompiled(Exception):
    """Code outside of the language of kernels; `where` names function, file and line."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{message} ({where})" if where else message)
        self.message, self.where = message, where


class Unsettled(NotCompiled):
    """A variable is read whose kind is not known yet; it is once the function has been gone through again."""
