"""The stage that makes constants of generated code arguments, so that another coefficient compiles nothing."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, get_args

from wyrm.ir.program import Expression, Invoke, LoopFunction, Number, Operation, Statement, Variable, called

# What functions are made of that may have constants in it.
_PARTS = frozenset(get_args(Expression) + get_args(Statement)) - {Variable}


def parameterized(
    functions: Sequence[LoopFunction], generated: Collection[str]
) -> tuple[list[LoopFunction], dict[str, tuple[Number, ...]]]:
    """The functions with a parameter more for each float constant of the generated ones; and what these stand for.

    A function comes after those that it calls. It passes on what they need, so the numbers of the last function are
    those of the whole program. 0, 1, -1, infinities, NaN and exponents stay as they are, for code is simpler with them.
    """
    needed: dict[str, tuple[Number, ...]] = {}
    made = []
    for function in functions:
        found: dict[str, Number] = {}
        if function.name in generated:
            for statement in function.body:
                _visit(statement, found, needed)
        needed[function.name] = tuple(found.values())
        if found or any(needed.get(name) for name in called(function.body)):
            variables = {
                key: Variable(f"constant {place}", each.type) for place, (key, each) in enumerate(found.items())
            }
            body = tuple(_changed(statement, variables, needed) for statement in function.body)
            function = replace(function, parameters=(*function.parameters, *variables.values()), body=body)
        made.append(function)
    return made, needed


def _is_structure(number: Number) -> bool:
    value = float(number.value)
    return number.type.kind != "f" or value in (0.0, 1.0, -1.0) or not math.isfinite(value)


def _key(number: Number) -> str:
    return f"{number.type} {number.value!r}"


def _children(item: Any) -> list[Any]:
    """The expressions and statements that one is made of, but for variables."""
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
    """An expression or statement with variables for constants, and calls that pass them on."""

    def again(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(again, value))
        return _changed(value, variables, needed) if type(value) in _PARTS else value

    if isinstance(item, Number):
        return variables.get(_key(item), item)
    if isinstance(item, Operation) and item.name == "power":
        base, exponent = item.operands
        return replace(item, operands=(again(base), exponent))
    fields: dict[str, Any] = {}
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        new = again(value)
        if new is not value and new != value:
            fields[name] = new
    if isinstance(item, Invoke) and needed[item.function]:
        passed = tuple(variables[_key(number)] for number in needed[item.function])
        fields["arguments"] = (*fields.get("arguments", item.arguments), *passed)
    return replace(item, **fields) if fields else item
