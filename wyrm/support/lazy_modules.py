"""Modules of JAX, which takes a second to import: each is imported when one of its names is first read."""

from __future__ import annotations

import importlib
import sys
from typing import Any


class LazyModule:
    """A module that is imported when one of its names is read; `ImportError` is raised there if it is missing."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        # Each time, for tests that hide a module or replace a name in it.
        return getattr(sys.modules.get(self._module) or importlib.import_module(self._module), name)


jax: Any = LazyModule("jax")
jnp: Any = LazyModule("jax.numpy")
lax: Any = LazyModule("jax.lax")
