"""The pass that turns float constants of generated code into parameters, so that a changed constant reuses the code."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, get_args

from wyrm.engines.native.ir.program import (
    Expression,
    Invoke,
    LoopFunction,
    Number,
    Operation,
    Statement,
    Variable,
    called,
)

# The IR classes that may contain constants.
_PARTS = frozenset(get_args(Expression) + get_args(Statement)) - {Variable}


def parameterized(
    functions: Sequence[LoopFunction], generated: Collection[str]
) -> tuple[list[LoopFunction], dict[str, tuple[Number, ...]]]:
    """Turn float constants of generated functions into parameters; return the functions, and the constants by function.

    `functions` are in call order, callees first. A caller also takes its callees' constants and passes them on, so the
    constants of the last function are those of the whole program. 0, 1, -1, infinities, NaN and exponents stay inline:
    LLVM simplifies code with them.
    """
    needed: dict[str, tuple[Number, ...]] = {}
    parameterized_functions = []
    for function in functions:
        found: dict[str, Number] = {}
        if function.name in generated:
            for statement in function.body:
                _visit(statement, found, needed)
        needed[function.name] = tuple(found.values())
        if found or any(needed.get(name) for name in called(function.body)):
            variables = {
                key: Variable(f"constant {index}", each.type) for index, (key, each) in enumerate(found.items())
            }
            body = tuple(_changed(statement, variables, needed) for statement in function.body)
            function = replace(function, parameters=(*function.parameters, *variables.values()), body=body)
        parameterized_functions.append(function)
    return parameterized_functions, needed


def _is_structure(number: Number) -> bool:
    value = float(number.value)
    return number.type.kind != "f" or value in (0.0, 1.0, -1.0) or not math.isfinite(value)


def _key(number: Number) -> str:
    return f"{number.type} {number.value!r}"


def _children(item: Any) -> list[Any]:
    """Return the direct subexpressions and nested statements, without variables."""
    found: list[Any] = []
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        found += value if isinstance(value, tuple) else [value]
    return [each for each in found if type(each) in _PARTS]


def _visit(item: Expression | Statement, found: dict[str, Number], needed: dict[str, tuple[Number, ...]]) -> None:
    if isinstance(item, Number):
        if not _is_structure(item):
            found.setdefault(_key(item), item)
        return
    if isinstance(item, Invoke):
        for number in needed[item.function]:
            found.setdefault(_key(number), number)
    children = _children(item)
    if isinstance(item, Operation) and item.name == "power":
        children = children[:1]
    for each in children:
        _visit(each, found, needed)


def _changed(item: Any, variables: dict[str, Variable], needed: dict[str, tuple[Number, ...]]) -> Any:
    """Return an expression or statement with constants replaced by variables, and with calls that pass them on."""

    def recurse(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(recurse, value))
        return _changed(value, variables, needed) if type(value) in _PARTS else value

    if isinstance(item, Number):
        return variables.get(_key(item), item)
    if isinstance(item, Operation) and item.name == "power":
        base, exponent = item.operands
        return replace(item, operands=(recurse(base), exponent))
    fields: dict[str, Any] = {}
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        new = recurse(value)
        if new is not value and new != value:
            fields[name] = new
    if isinstance(item, Invoke) and needed[item.function]:
        passed = tuple(variables[_key(number)] for number in needed[item.function])
        fields["arguments"] = (*fields.get("arguments", item.arguments), *passed)
    return replace(item, **fields) if fields else item
