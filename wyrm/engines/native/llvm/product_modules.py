"""The modules of products and of threads, which programs share, and the functions that call them.

Where products do not allocate, memory for packed operands is passed down from the entry point.
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
    LibraryCall,
    LoopFunction,
    ShiftedSums,
    Statement,
    TiledProduct,
    Variable,
    While,
    called,
    every,
)
from wyrm.engines.native.ir.types import UINT8, PointerType, ScalarType
from wyrm.engines.native.kernels.translate import Translation
from wyrm.engines.native.llvm.cache import key
from wyrm.engines.native.llvm.emit import emit
from wyrm.engines.native.llvm.optimize import AS_WRITTEN, Unit
from wyrm.engines.native.products import matrix, pool, shifted
from wyrm.engines.native.products.target import Target

# The last parameter of a function that multiplies matrices, or calls one that does.
PACKED = Variable("packed memory", PointerType(UINT8))


def takes_packed_memory(function: LoopFunction) -> bool:
    """Return whether a function of `calling_products` has the parameter."""
    return PACKED in function.parameters


def calling_products(function: LoopFunction, known: Mapping[str, LoopFunction], target: Target) -> LoopFunction:
    """Return the function with calls in place of products, and with the parameter if one of them needs the memory.

    `known` are its callees, treated alike.
    """
    products = [each for each in every(function.body) if isinstance(each, TiledProduct | ShiftedSums)]
    packs = not target.allocates and (
        any(isinstance(each, TiledProduct) for each in products)
        or any(takes_packed_memory(known[name]) for name in called(function.body))
    )
    if not products and not packs:
        return function
    body = tuple(_calling(each, known, target) for each in function.body)
    return replace(function, parameters=(*function.parameters, *([PACKED] if packs else [])), body=body)


def _calling(statement: Statement, known: Mapping[str, LoopFunction], target: Target) -> Statement:
    def inside(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_calling(each, known, target) for each in body)

    changed: dict[str, Any] = {}
    match statement:
        case TiledProduct() | ShiftedSums():
            packs = isinstance(statement, TiledProduct) and not target.allocates
            symbol = product_module(*module_of(statement), target).symbol
            return LibraryCall(symbol, (*statement.operands, *([PACKED] if packs else [])), by_value=True)
        case Invoke() if takes_packed_memory(known[statement.function]):
            changed = {"arguments": (*statement.arguments, PACKED)}
        case For():
            changed = {"body": inside(statement.body)}
        case While():
            changed = {"before": inside(statement.before), "body": inside(statement.body)}
        case If():
            changed = {"body": inside(statement.body), "otherwise": inside(statement.otherwise)}
    return replace(statement, **changed) if changed else statement


def module_of(statement: TiledProduct | ShiftedSums) -> tuple[ScalarType, ScalarType | None, bool]:
    """Return the types of the module that a statement calls: that of its sums, and for a product its right operand's.

    Then follows whether operands are rounded to bfloat16. No type of a right operand stands for `ShiftedSums`.
    """
    if isinstance(statement, TiledProduct):
        return statement.type, statement.right, statement.rounds
    return statement.type, None, False


@cache
def product_module(number: ScalarType, right: ScalarType | None, rounds: bool, target: Target) -> Unit:
    """Return the module for the types of `module_of`, for a target; its function takes the statement's operands."""
    if right is None:
        return _unit(shifted.text(target, number), AS_WRITTEN)
    pool = pool_module(target).symbol if target.allocates else None
    return _unit(matrix.text(target, number, pool, right, rounds=rounds), AS_WRITTEN)


@cache
def pool_module(target: Target) -> Unit:
    """Return the module with the threads, `wyrm.engines.native.products.pool.share`, which costs little to compile."""
    translation = Translation(checked=False, target=target)
    name = translation.specialized(pool.share, pool.GIVEN).function.name
    return _unit(emit(translation.program(name).functions, {}, entry=False, target=target), 0)


def _unit(text: str, level: int) -> Unit:
    return Unit(f"wyrm_{key(text)}", text, level)
