"""PyTorch, which tests compare with, imported at its first use; where it is not installed, a test that calls it skips.

Everything else in the modules that import it from here runs without it too.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

__all__ = ["flop_counter", "functional", "torch"]


class _Missing:
    """Stands for a name of PyTorch that is not installed: a table of cases may hold it, and a call skips the test."""

    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        pytest.skip("PyTorch, which it compares with, is not installed", allow_module_level=True)


class _Late:
    """A module that is imported when a name of it is read."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            module: Any = importlib.import_module(self._module)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            module = _Missing()
        return getattr(module, name)


torch: Any = _Late("torch")
functional: Any = _Late("torch.nn.functional")
flop_counter: Any = _Late("torch.utils.flop_counter")
