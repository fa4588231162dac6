"""The modules of products of matrices: one a type of floats, and one with the threads that they share."""

from __future__ import annotations

from functools import cache

from wyrm.engines.native.ir.types import ScalarType
from wyrm.engines.native.llvm.cache import key
from wyrm.engines.native.products import matrix, pool
from wyrm.engines.native.products.target import host


@cache
def product_module(number: ScalarType) -> tuple[str, str]:
    """Return the symbol and the text of the module for a type of floats, for this processor.

    Its function takes the operands of `wyrm.engines.native.ir.program.Product`.
    """
    return _named(matrix.text(host(), number, pool_module()[0]))


@cache
def pool_module() -> tuple[str, str]:
    """Return the symbol and the text of the module with the threads; see `wyrm.engines.native.products.pool.text`."""
    return _named(pool.text())


def _named(text: str) -> tuple[str, str]:
    return f"wyrm_{key(text)}", text
