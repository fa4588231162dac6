"""The plugin's errors: one line each, with the axes of all operands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mypy.errorcodes import ErrorCode
from mypy.types import Instance, ProperType, TupleType, Type, TypeVarType, UnpackType, get_proper_type

from wyrm.graph.base import BaseNode, format_dims
from wyrm.mypy.reading import shape_of

# A size that was chosen for the check, the name of the op before a reason, and a leaf that was made for it.
_SIZE = re.compile(r"(?<=\w)\(\d*\)")
_OP = re.compile(r"^\w+(?: of \S+|\(.*?\))?: ")
_CARRY = re.compile(r"( has the axes \(.*?\) but becomes )\w+ (\(.*?\)).*")
_ITSELF = re.compile(r"^\S+ is the operand and")
_BESIDE = re.compile(r", in the operand(?:, the operand)*$")
_LEAF = re.compile(r"\b\w+ \((?:[^()]|\(\d*\))*\) \w+ \(at [^()]*\)")

AXES = ErrorCode("axes", "Operands whose axes do not fit", "wyrm")

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_ONE_SIDED = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "getitem": "[...]", "neg": "-", "abs": "abs",
    "invert": "~",
}  # fmt: skip
# What the method of an operator is called in a message.
OPERATORS = {
    **{f"__{name}__": symbol for name, symbol in (_SYMBOLS | _ONE_SIDED).items()},
    **{f"__r{name}__": symbol for name, symbol in _SYMBOLS.items()},
}
REFLECTED = frozenset(f"__r{name}__" for name in _SYMBOLS)


def message(name: str, operands: Sequence[Instance], error: Exception) -> str:
    """Return the first line of a run-time error, with the axes of the operands after the op's name.

    Of a long reason, the two axes that do not fit are enough.
    """
    shapes = [axes_of(operand) for operand in (operands[::-1] if name in REFLECTED else operands)]
    reason = _SIZE.sub("", str(error).partition("\n")[0])
    return f"{OPERATORS.get(name, name)} of {' and '.join(shapes)}: {_brief(reason)}"


def message_of_functions(name: str, returned: Sequence[Type]) -> str | None:
    """Return a message with what functions return, where these have different axes; else None."""
    found = list(dict.fromkeys(map(_returned, returned)))
    return f"{name}: the functions return {' and '.join(found)}" if len(found) > 1 else None


def _returned(type_: Type) -> str:
    proper = get_proper_type(type_)
    if isinstance(proper, TupleType):
        return _tuple(list(map(_returned, proper.items)))
    return axes_of(proper) if isinstance(proper, Instance) else "Any"


def message_with_sizes(called: Any, operands: Sequence[BaseNode], error: Exception) -> str:
    """Return the first line of the error of a call whose text tells the sizes, with the axes of its operands."""
    text = str(error).partition("\n")[0]
    if not operands:
        return text
    kind = called if hasattr(called, "__name__") else type(called)
    name = OPERATORS.get(f"__{kind.__name__.strip('_')}__", kind.__name__)
    shapes = " and ".join(format_dims(x.dims) for x in operands).replace("_Open()", "Any")
    return f"{name} of {shapes}: {_brief(text)}"


def _brief(reason: str) -> str:
    """Return a reason without the name of the op; of a long one, the two axes that do not fit."""
    reason = _CARRY.sub(r"\1\2", reason)
    reason = _BESIDE.sub("", _OP.sub("", _LEAF.sub("the operand", reason.replace(" (different axes)", ""))))
    reason = _ITSELF.sub("the operand", reason)
    detail, separator, pair = reason.rpartition(": ")
    return pair if separator and " against " in pair and len(detail) > 30 else reason


def axes_of(node: Instance) -> str:
    """Return the axes of the type of a node as they are written in a program."""
    shape = shape_of(node)
    if not isinstance(shape, TupleType):
        return "unknown axes"
    return _tuple([name_of_axis(get_proper_type(item)) for item in shape.items])


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def name_of_axis(axis: ProperType) -> str:
    if isinstance(axis, Instance):
        parts = [name_of_axis(get_proper_type(part)) for part in axis.args]
        return f"{axis.type.name}[{', '.join(parts)}]" if parts else axis.type.name
    if isinstance(axis, UnpackType):
        return f"*{name_of_axis(get_proper_type(axis.type))}"
    return axis.name if isinstance(axis, TypeVarType) else "Any"
