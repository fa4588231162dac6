"""The plugin's errors, one line each with the axes of all operands; and mypy's own messages in short."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mypy.errorcodes import ErrorCode
from mypy.types import Instance, ProperType, TupleType, Type, TypeVarType, UnpackType, get_proper_type

from wyrm.graph.base import BaseNode, format_dims
from wyrm.mypy.reading import shape_of

# About an argument of a module, and a shape in it: axes may have parts, as `Plus[A, B]` has.
_OF_MODULE = re.compile(r'^Argument (.+) to "__call__" of "(\w+)" has incompatible type "(.+)"; expected "(.+)"$')
_TUPLE = re.compile(r"\btuple\[((?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)\]")
# About an argument, the result of a lambda, and overloads.
_ARGUMENT = re.compile(r'^Argument (.+?)(?: to "(\w+)"(?: of "\w+")?)? has incompatible type "(.+)"; expected "(.+)"$')
_RETURNED = re.compile(r'^Incompatible return value type \(got "(.+)", expected "(.+)"\)$')
_OVERLOADS = re.compile(r'^No overload variant of ".+" matches argument types? (.+)$')
# About the data of a program, by the type variables of `wyrm.engines.tables`.
_DATA = re.compile(
    r'^Value of type variable "(?:Data|Feed|OptionalFeed)T" of "(\w+)"( of "Program")? cannot be "(.+)"$'
)
_TOKEN = re.compile(r"\[|\]|, | \| |[^\[\],|]+|[,|]")


def of_module(text: str, module: str) -> str | None:
    """Return mypy's message about a module's argument with the axes alone; None for an argument that is no node."""
    found = _OF_MODULE.match(text)
    if found is None:
        return None
    position, _, given, expected = found.groups()
    shapes = _TUPLE.findall(given)[-1:] + _TUPLE.findall(expected)
    if len(shapes) != 2 or "tuple[" in "".join(shapes) or given.startswith("tuple"):
        return None
    name = f"{module}({position[1:-1]}=)" if position.startswith('"') else module
    axes = shapes[1].split(", ")
    given, expected = (abbreviated(f"tuple[{each.replace('Never', 'Any')}]") for each in shapes)
    return f"{name} of {given}: expected {f'{len(axes)} axes' if set(axes) == {'Never'} else expected}"


def of_function(text: str, function: str) -> str | None:
    """Return mypy's message about a call of a function or method in short; None for one of another form."""
    found = _RETURNED.match(text)
    if found is not None:
        return f"{function}: the function returns {abbreviated(found[1])}, expected {abbreviated(found[2])}"
    found = _OVERLOADS.match(text)
    if found is not None:
        given = ", ".join(map(abbreviated, re.findall(r'"(.*?)"|overloaded function', found[1])))
        return f"{function}: no overload takes {given}"
    found = _ARGUMENT.match(text)
    if found is None:
        return None
    position = found[1].removeprefix('"').removesuffix('"')
    given, expected = abbreviated(found[3]), abbreviated(found[4])
    pair = [each.rpartition(" -> ")[0] for each in (given, expected)]
    if all(pair) and pair[0] != pair[1]:
        return f"{function}: the function takes {pair[0]}, but gets {pair[1]}"
    return f"{function}: argument {position} is {given}, expected {expected}"


def of_data(text: str) -> str | None:
    """Return mypy's message about the data of a program in short; None for a message about something else."""
    found = _DATA.match(text)
    if found is None:
        return None
    name, given = ("a program", found[3]) if found[1] == "__call__" else (found[1], found[3])
    return f"{name} takes data by input, as in {{x: array}}, or a table, not {abbreviated(given)}"


def abbreviated(text: str) -> str:
    """Return a type as mypy shows it, with the axes of nodes in place of their types.

    >>> abbreviated("MatMul[Node[Any, tuple[In]], Parameter[tuple[In, Out]], tuple[Out]]")
    '(Out,)'
    >>> abbreviated("Callable[[Node[Any, tuple[()]], Any], tuple[Node[Any, tuple[()]], Any]]")
    '((), Any) -> ((), Any)'
    >>> abbreviated("numpy.bool[builtins.bool] | list[Node[Any, Any]]")
    'bool[bool] | list[Node]'
    """
    return _union(iter([*_TOKEN.findall(text), ""]))[0]


def _union(tokens: Iterator[str]) -> tuple[str, str]:
    """Return a type that is read from tokens, in short, and the token after it."""
    found, token = _single(tokens)
    while token == " | ":
        other, token = _single(tokens)
        found = f"{found} | {other}"
    return found, token


def _single(tokens: Iterator[str]) -> tuple[str, str]:
    name = next(tokens)
    if name == "[":  # the arguments of a Callable
        return f"({', '.join(_bracketed(tokens))})", next(tokens)
    name = re.sub(r"\b(?:\w+\.)+", "", name)
    token = next(tokens)
    if token != "[":
        return name, token
    items = _bracketed(tokens)
    return _shown_type(name, items), next(tokens)


def _bracketed(tokens: Iterator[str]) -> list[str]:
    """Return what stands between brackets, of which the first is read."""
    items, token = [], ", "
    while token == ", ":
        item, token = _union(tokens)
        items.append(item)
    return items


def _shown_type(name: str, items: list[str]) -> str:
    """Return a class with arguments; of a node, its axes, which are the last argument."""
    if name == "tuple":
        return "()" if items == ["()"] else f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if name == "Callable":
        return f"{items[0]} -> {items[-1]}"
    if items[-1].startswith("(") and name not in ("list", "dict", "Sequence", "Iterable", "type"):
        return items[-1]
    return "Node" if name == "Node" else f"{name}[{', '.join(items)}]"


# A size that was chosen for the check, the name of the op before a reason, and a leaf that was made for it.
_SIZE = re.compile(r"(?<=[\w\]])\(\d*\)")
_OP = re.compile(r"^\w+(?: of \S+|\(.*?\))?: ")
_CARRY = re.compile(r"( has the axes \(.*?\) but becomes )\w+ (\(.*?\)).*")
_ITSELF = re.compile(r"^\S+ is the operand and")
_PAIRS = re.compile(r"^the result would have the axes .*, (.+) twice: .*(\.squeeze\(.*?\)).*")
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
    found = list(dict.fromkeys(map(_text_of_returned, returned)))
    return f"{name}: the functions return {' and '.join(found)}" if len(found) > 1 else None


def _text_of_returned(type_: Type) -> str:
    proper = get_proper_type(type_)
    if isinstance(proper, TupleType):
        return _tuple(list(map(_text_of_returned, proper.items)))
    return axes_of(proper) if isinstance(proper, Instance) else "Any"


def message_with_sizes(called: Any, operands: Sequence[BaseNode], error: Exception) -> str:
    """Return the first line of the error of a call whose text tells the sizes, with the axes of its operands."""
    text = str(error).partition("\n")[0]
    if not operands:
        return text
    kind = called if hasattr(called, "__name__") else type(called)
    name = OPERATORS.get(f"__{kind.__name__.strip('_')}__", kind.__name__)
    shapes = " and ".join(format_dims(x.dims) for x in operands).replace("Any()", "Any")
    return f"{name} of {shapes}: {_brief(text)}"


def _brief(reason: str) -> str:
    """Return a reason without the name of the op; of a long one, the two axes that do not fit."""
    reason = _CARRY.sub(r"\1\2", reason)
    reason = _BESIDE.sub("", _OP.sub("", _LEAF.sub("the operand", reason.replace(" (different axes)", ""))))
    reason = _PAIRS.sub(
        r"\1 twice in the result: remove the axis of size 1 with \2", _ITSELF.sub("the operand", reason)
    )
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
