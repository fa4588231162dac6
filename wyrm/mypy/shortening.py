"""mypy's own messages in short: the axes of nodes in place of their types, and no list of overloads."""

from __future__ import annotations

import re
from collections.abc import Iterator

# About an argument of a module, and a shape in it: axes may have parts, as `Plus[A, B]` has.
_OF_MODULE = re.compile(r'^Argument (.+) to "__call__" of "(\w+)" has incompatible type "(.+)"; expected "(.+)"$')
_TUPLE = re.compile(r"\btuple\[((?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)\]")
# About an argument, the result of a lambda, and overloads.
_ARGUMENT = re.compile(r'^Argument (.+?)(?: to "(\w+)"(?: of "\w+")?)? has incompatible type "(.+)"; expected "(.+)"$')
_RETURNED = re.compile(r'^Incompatible return value type \(got "(.+)", expected "(.+)"\)$')
_OVERLOADS = re.compile(r'^No overload variant of ".+" matches argument types? (.+)$')
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
    return f"{function}: argument {position} is {given}, expected {expected}"


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
        return f"({', '.join(_items(tokens))})", next(tokens)
    name = re.sub(r"\b(?:\w+\.)+", "", name)
    token = next(tokens)
    if token != "[":
        return name, token
    items = _items(tokens)
    return _named(name, items), next(tokens)


def _items(tokens: Iterator[str]) -> list[str]:
    """Return what stands between brackets, of which the first is read."""
    items, token = [], ", "
    while token == ", ":
        item, token = _union(tokens)
        items.append(item)
    return items


def _named(name: str, items: list[str]) -> str:
    """Return a class with arguments; of a node, its axes, which are the last argument."""
    if name == "tuple":
        return "()" if items == ["()"] else f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if name == "Callable":
        return f"{items[0]} -> {items[-1]}"
    if items[-1].startswith("(") and name not in ("list", "dict", "Sequence", "Iterable", "type"):
        return items[-1]
    return "Node" if name == "Node" else f"{name}[{', '.join(items)}]"
