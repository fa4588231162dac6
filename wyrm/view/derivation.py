"""A computation and its derivative side by side, line by line."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from html import escape
from typing import Any, TypeAlias

from wyrm.errors import MissingValue, ShapeError
from wyrm.functions.function import Function
from wyrm.functions.tracing import name_of
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import stored
from wyrm.ops.gradients.reverse import pull_back
from wyrm.support.texts import encodable

# Maximum column width; longer lines shift the text to their right.
_WIDEST = 60
_TITLES = ("forward, top to bottom", "backward, bottom to top", "")


# A value's equation, its axes, the equation of its gradient, and the user's line.
Row = tuple[str, str, str, str]


class Derivation(str):
    """The text of `to_derivation`, which notebooks display as a table of typeset formulas."""

    output: Node

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the lines; IPython would show the text in quotes."""
        printer.text(str(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the table for notebooks."""
        from wyrm.view.notebook import derivation_table

        return {"text/plain": str(self), "text/html": derivation_table(rows_of(self.output, MathNotation()))}


def to_derivation(output: Node) -> Derivation:
    """Return one line per value: its expression, the gradient of the output with respect to it, and the user's line.

    `dt` is the gradient with respect to `t`; read the gradients from the last line to the first. Raises
    `NotDifferentiable` for an op without gradient.

    >>> x = wy.Input(name="x")
    >>> print(to_derivation(x.sin() * x))  # doctest: +ELLIPSIS
    forward, top to bottom  backward, bottom to top
    x            ()         dx = dt2 * t1 + dt1 * cos(x)
    t1 = sin(x)  ()         dt1 = dt2 * x...
    t2 = t1 * x  ()         dt2 = 1.0...
    """
    rows = rows_of(output, TextNotation())
    width = max((len(left) for left, *_ in rows), default=0)
    lines = [
        _TITLES,
        *((f"{left:<{width}}  {dims}", right, f"# {line}" if line else "") for left, dims, right, line in rows),
    ]
    columns = [min(max(len(row[i]) for row in lines), _WIDEST) for i in range(2)]
    text = "\n".join(f"{a:<{columns[0]}}  {b:<{columns[1]}}  {c}".rstrip() for a, b, c in lines)
    derivation = Derivation(encodable(text))
    derivation.output = output
    return derivation


def rows_of(output: Node, notation: Notation) -> list[Row]:
    """Return for each value its equation, its axes, the equation of its gradient, and the user's line."""
    shown = [node for node in Schedule([output]).nodes if not _is_number(node)]
    differentiable = [node for node in shown if isinstance(node, Node) and node.dtype.kind == "f"]
    start = Input(dims=output.dims, dtype=output.dtype, name="1.0")
    found = pull_back([output], [start], differentiable)
    gradients: dict[BaseNode, Node] = {node: g for node, g in zip(differentiable, found, strict=True) if g is not None}
    whole = Schedule([output, *gradients.values()])
    same = whole.representative
    numbers = iter(range(1, len(shown) + 1))
    labels: dict[BaseNode, str] = {}
    names: dict[BaseNode, Written] = {}
    taken: set[str] = set()
    for node in shown:
        own = node.name if node.name is not None and node.name not in taken else f"t{next(numbers)}"
        taken.add(own)
        labels[node] = own
        names[same[node]] = notation.name(own)
    texts: dict[BaseNode, str] = {}
    for node in reversed(shown):
        if node in gradients:
            gradient = same[gradients[node]]
            texts[node] = names[gradient][0] if gradient in names else _written(gradient, names, same, notation)
            names.setdefault(gradient, notation.gradient(labels[node]))
    rows: list[Row] = []
    for node in shown:
        left, right = notation.name(labels[node])[0], ""
        if not node.is_leaf:
            left = notation.equation(left, _written(node, names, same, notation))
        if node in texts:
            right = notation.equation(notation.gradient(labels[node])[0], texts[node])
        line = "" if node.is_leaf else f"{node.location} {node.location.source}".rstrip()
        rows.append((left, format_dims(node.dims), right, line))
    return rows


def _is_number(node: BaseNode) -> bool:
    return isinstance(node, Constant) and node.name is None and node.dims == ()


def _written(
    given: BaseNode, names: dict[BaseNode, Written], same: dict[BaseNode, BaseNode], notation: Notation
) -> str:
    """Return an op and its operands as an expression; unnamed operands are expanded."""
    node = same[given]
    # An explicit stack, since gradients may be deep; operands come before their op.
    done: dict[BaseNode, Written] = {}
    stack = [(node, False)]
    while stack:
        current, ready = stack.pop()
        known = None if current is node else names.get(current)
        if current in done:
            continue
        if known is not None or current.is_leaf:
            done[current] = known or notation.name(_number(current))
        elif ready:
            operands = [done[parent] for parent in _operands(current, names, same)]
            # Broadcasting is implicit, as in NumPy.
            implicit = current.op_name() == "broadcast_to"
            done[current] = operands[0] if implicit else _operation(current, operands, notation)
        else:
            stack.append((current, True))
            stack += [(parent, False) for parent in _operands(current, names, same)]
    return done[node][0]


def _operation(node: BaseNode, operands: list[Written], notation: Notation) -> Written:
    given = [(key, value) for key, value in node.attribute_values().items() if value is not None and value is not False]
    return notation.operation(node.op_name(), operands, given)


def _operands(node: BaseNode, names: dict[BaseNode, Written], same: dict[BaseNode, BaseNode]) -> list[BaseNode]:
    """Return the operands, without a reshape that only prepares broadcasting."""
    operands = [same[parent] for parent in node.parents]
    if node.op_name() == "broadcast_to" and operands[0].op_name() == "reshape" and operands[0] not in names:
        return [same[operands[0].parents[0]]]
    return operands


def _number(leaf: BaseNode) -> str:
    array = stored(leaf).array
    small = array is not None and array.size <= 4
    return leaf.name or (repr(array.tolist()) if array is not None and small else type(leaf).__name__.lower())


# An expression as text, and its precedence.
Written = tuple[str, int]
# Symbol and precedence of each infix operator.
_INFIX = {
    "add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2), "matmul": ("@", 2),
    "power": ("**", 4),
}  # fmt: skip
_NEGATIVE, _WORD = 3, 5


class TextNotation:
    """Expressions as Python writes them."""

    def name(self, text: str) -> Written:
        """Return a name or a number."""
        return text, _WORD

    def gradient(self, text: str) -> Written:
        """Return the name of the gradient with respect to a name."""
        return f"d{text}", _WORD

    def equation(self, left: str, right: str) -> str:
        """Return an equation."""
        return f"{left} = {right}"

    def operation(self, kind: str, operands: Sequence[Written], attributes: Sequence[tuple[str, object]]) -> Written:
        """Return an operation on its written operands, with its static attributes."""
        if kind in _INFIX and len(operands) == 2:
            sign, precedence = _INFIX[kind]
            left, right = _sides(kind, precedence)
            return f"{_within(operands[0], left)} {sign} {_within(operands[1], right)}", precedence
        if kind == "negative":
            return f"-{_within(operands[0], _NEGATIVE)}", _NEGATIVE
        named = [f"{key}={value!r}" for key, value in attributes]
        return f"{kind}({', '.join([*(text for text, _ in operands), *named])})", _WORD


class MathNotation:
    """Expressions in MathML, by the methods of `TextNotation`."""

    def name(self, text: str) -> Written:
        return _math_name(text), _WORD

    def gradient(self, text: str) -> Written:
        return f'<mrow><mo lspace="0" rspace="0">d</mo>{_math_name(text)}</mrow>', _WORD

    def equation(self, left: str, right: str) -> str:
        return f"{left}<mo>=</mo>{right}"

    def operation(self, kind: str, operands: Sequence[Written], attributes: Sequence[tuple[str, object]]) -> Written:
        if len(operands) == 2 and kind in _INFIX:
            first, second = operands
            if kind == "divide":
                return f"<mfrac>{_row(first[0])}{_row(second[0])}</mfrac>", _WORD
            if kind == "power":
                return f"<msup>{_row(_bracketed(first, _WORD))}{_row(second[0])}</msup>", _WORD - 1
            sign, precedence = _INFIX[kind]
            left, right = _sides(kind, precedence)
            sign = "·" if kind == "multiply" else sign
            return f"{_bracketed(first, left)}<mo>{sign}</mo>{_bracketed(second, right)}", precedence
        if len(operands) == 1 and not attributes:
            text = operands[0][0]
            if kind == "negative":
                return f"<mo>-</mo>{_bracketed(operands[0], _NEGATIVE)}", _NEGATIVE
            if kind == "square":
                return f"<msup>{_row(_bracketed(operands[0], _WORD))}<mn>2</mn></msup>", _WORD - 1
            if kind == "sqrt":
                return f"<msqrt>{text}</msqrt>", _WORD
            if kind == "exp":
                return f"<msup><mi>e</mi>{_row(text)}</msup>", _WORD - 1
        named = [f"<mi>{escape(key)}</mi><mo>=</mo><mtext>{escape(repr(value))}</mtext>" for key, value in attributes]
        listed = "<mo>,</mo>".join([*(text for text, _ in operands), *named])
        return f"<mi>{escape(kind)}</mi><mrow><mo>(</mo>{listed}<mo>)</mo></mrow>", _WORD


Notation: TypeAlias = TextNotation | MathNotation


def _sides(kind: str, precedence: int) -> tuple[int, int]:
    """Return the precedences below which the left and the right operand need parentheses.

    `a - (b - c)` keeps its parentheses, `(a - b) - c` needs none; powers associate to the right.
    """
    after = precedence if kind in ("add", "multiply", "power") else precedence + 1
    return precedence + 1 if kind == "power" else precedence, after


def _within(operand: Written, precedence: int) -> str:
    return operand[0] if operand[1] >= precedence else f"({operand[0]})"


def _bracketed(operand: Written, precedence: int) -> str:
    return operand[0] if operand[1] >= precedence else f"<mrow><mo>(</mo>{operand[0]}<mo>)</mo></mrow>"


def _row(text: str) -> str:
    return f"<mrow>{text}</mrow>"


def _math_name(text: str) -> str:
    """Return a number, or a name with its final digits as a subscript."""
    if re.fullmatch(r"-?\d[\d.e+-]*", text):
        return f"<mo>-</mo><mn>{text[1:]}</mn>" if text.startswith("-") else f"<mn>{text}</mn>"
    base, number = re.fullmatch(r"(.*?)(\d*)", text, re.DOTALL).groups()  # type: ignore[union-attr]  # it always matches
    if not base or not number:
        return f"<mi>{escape(text)}</mi>"
    return f"<msub><mi>{escape(base)}</mi><mn>{number}</mn></msub>"


def _argument_names(function: Function) -> list[str]:
    """Return the names of the arguments that a call by position must have."""
    found = inspect.signature(function.function).parameters.values()
    return [each.name for each in found if each.default is each.empty and each.kind is not each.KEYWORD_ONLY]


def show(function: Function, *args: object, **kwargs: object) -> None:
    """Print the nodes of a call of the function beside the gradient of each; notebooks show a table of formulas.

    The call is that with the arguments given, of which only the shapes and types matter: nothing is computed. Without
    arguments it is the last call. `dt` is the gradient of the result with respect to `t`; read the gradients from the
    last line to the first.

    Raises `NotSet` without arguments before the first call, `TypeError` for anything but a `wy.function`, `ShapeError`
    if the result is not a single array, and `NotDifferentiable` for an op without gradient.

    >>> @wy.function
    ... def energy(x, y):
    ...     return (x * y).sin() + y
    >>> wy.show(energy, 1.0, 2.0)  # doctest: +ELLIPSIS
    forward, top to bottom  backward, bottom to top
    x             ()        dx = dt1 * y
    y             ()        dy = dt3 + dt1 * x
    t1 = x * y    ()        dt1 = dt3 * cos(t1)...
    t2 = sin(t1)  ()        dt2 = dt3...
    t3 = t2 + y   ()        dt3 = 1.0...
    """
    given: object = function
    if not isinstance(given, Function):
        is_node = isinstance(given, BaseNode)
        instead = "wy.view.to_text(node) lists the nodes of a graph" if is_node else "write @wy.function above it"
        raise TypeError(f"wyrm.show takes a function made by wyrm.function, not {given!r}: {instead}")
    if function._last is None and not args and not kwargs:
        raise MissingValue(
            f"{name_of(function)} has not been called yet, so its arguments have no shapes: give them, as in "
            f"wy.show({', '.join([name_of(function), *_argument_names(function)])}), or call it first"
        )
    outputs = function.trace(*args, **kwargs).outputs if args or kwargs else function._known().trace.outputs
    if len(outputs) != 1:
        raise ShapeError(f"show needs a single result array; {name_of(function)} returns {len(outputs)}")
    derivation = to_derivation(outputs[0])
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(derivation)
    else:
        print(derivation)  # noqa: T201  # printing is its purpose
