"""The modules of products, which programs share, and memory for packed operands.

Where products do not allocate, the memory is passed down from the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from wyrm.engines.native.ir.program import (
    For,
    If,
    Invoke,
    LoopFunction,
    Statement,
    TiledProduct,
    Variable,
    While,
    called,
    every,
)
from wyrm.engines.native.ir.types import UINT8, PointerType, ScalarType
from wyrm.engines.native.llvm.cache import key
from wyrm.engines.native.products import matrix, pool, shifted
from wyrm.engines.native.products.target import Target

# The last parameter of a function that multiplies matrices, or calls one that does.
PACKED = Variable("packed memory", PointerType(UINT8))


def takes_packed_memory(function: LoopFunction) -> bool:
    """Return whether a function of `with_packed_memory` has the parameter."""
    return PACKED in function.parameters


def with_packed_memory(function: LoopFunction, known: Mapping[str, LoopFunction]) -> LoopFunction:
    """Return the function with the memory as a parameter if it needs that; `known` are its callees, treated alike."""
    multiplies = any(isinstance(each, TiledProduct) for each in every(function.body))
    if not multiplies and not any(takes_packed_memory(known[name]) for name in called(function.body)):
        return function
    body = tuple(_passing(each, known) for each in function.body)
    return replace(function, parameters=(*function.parameters, PACKED), body=body)


def _passing(statement: Statement, known: Mapping[str, LoopFunction]) -> Statement:
    def inside(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_passing(each, known) for each in body)

    changed: dict[str, Any] = {}
    match statement:
        case TiledProduct():
            changed = {"operands": (*statement.operands, PACKED)}
        case Invoke() if takes_packed_memory(known[statement.function]):
            changed = {"arguments": (*statement.arguments, PACKED)}
        case For():
            changed = {"body": inside(statement.body)}
        case While():
            changed = {"before": inside(statement.before), "body": inside(statement.body)}
        case If():
            changed = {"body": inside(statement.body), "otherwise": inside(statement.otherwise)}
    return replace(statement, **changed) if changed else statement


@cache
def product_module(shifts: bool, number: ScalarType, target: Target) -> tuple[str, str]:
    """Return the symbol and the text of the module for a type of floats, for a target.

    Its function takes the operands of `ShiftedSums` if `shifts`, else those of `TiledProduct`.
    """
    if shifts:
        return _module_name(shifted.text(target, number))
    return _module_name(matrix.text(target, number, pool_module(target)[0] if target.allocates else None))


@cache
def pool_module(target: Target) -> tuple[str, str]:
    """Return the symbol and the text of the module with the threads; see `wyrm.engines.native.products.pool.text`."""
    return _module_name(pool.text(target))


def _module_name(text: str) -> tuple[str, str]:
    return f"wyrm_{key(text)}", text
