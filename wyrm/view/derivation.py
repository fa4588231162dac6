"""A computation and its derivative side by side, line by line, as a paper writes them."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np

from wyrm.errors import MissingValue, ShapeError
from wyrm.functions.function import Function
from wyrm.functions.kernels import Kernel
from wyrm.functions.tracing import name_of
from wyrm.graph.axes import axis_name, axis_size
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import stored
from wyrm.ops.gradients.reverse import pull_back
from wyrm.support.texts import encodable
from wyrm.view.groups import paths_of_parameters

# An expression as text, and its precedence.
Written = tuple[str, int]
# Symbol and precedence of each infix operator. A matrix product has no symbol, and binds more tightly than others.
_INFIX = {
    "add": ("+", 1), "subtract": ("−", 1), "multiply": ("·", 2), "elementwise": ("⊙", 2), "divide": ("/", 2),
    "matmul": ("", 3), "power": ("^", 5),
}  # fmt: skip
_PRODUCT, _NEGATIVE, _WORD = 2, 4, 6
_SUBSCRIPTS, _SUPERSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"), str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class TextNotation:
    """Expressions as lines of text."""

    def name(self, text: str) -> Written:
        """Return a name or a number; a number at the end of a name of ours is a subscript."""
        own = re.fullmatch(r"t(\d+)", text)
        if own is not None:
            return f"t{own[1].translate(_SUBSCRIPTS)}", _WORD
        text = _plain_number(text)
        return (f"−{text[1:]}", _NEGATIVE) if re.match(r"-\d", text) else (text, _WORD)

    def gradient(self, text: str) -> Written:
        """Return the name of the gradient with respect to a name."""
        between = " " if "." in text else ""
        return f"d{between}{self.name(text)[0]}", _WORD

    def equation(self, left: str, right: str) -> str:
        """Return an equation."""
        return f"{left} = {right}"

    def transposed(self, operand: Written) -> Written:
        """Return a transposed matrix, or a vector as a row."""
        return f"{_within(operand, _WORD)}ᵀ", _WORD - 1

    def total(self, operand: Written, axes: Sequence[str] | None) -> Written:
        """Return the sum over some axes, None for all."""
        over = "" if axes is None else f", axis={', '.join(axes)}"
        return f"sum({operand[0]}{over})", _WORD

    def operation(self, kind: str, operands: Sequence[Written], attributes: Sequence[tuple[str, object]]) -> Written:
        """Return an operation on its written operands, with its static attributes."""
        if kind == "square" or (kind == "power" and re.fullmatch(r"\d", operands[1][0])):
            exponent = "2" if kind == "square" else operands[1][0]
            return f"{_within(operands[0], _WORD)}{exponent.translate(_SUPERSCRIPTS)}", _WORD - 1
        if kind in _INFIX and len(operands) == 2:
            sign, precedence = _INFIX[kind]
            left, right = _sides(kind, precedence)
            between = f" {sign} " if sign else " "
            return f"{_within(operands[0], left)}{between}{_within(_right(operands[1]), right)}", precedence
        if kind == "negative":
            return f"−{_within(operands[0], _PRODUCT)}", _NEGATIVE
        named = [f"{key}={value!r}" for key, value in attributes]
        return f"{kind}({', '.join([*(text for text, _ in operands), *named])})", _WORD


class MathNotation:
    """Expressions in MathML, by the methods of `TextNotation`."""

    def name(self, text: str) -> Written:
        return _math_name(text), _WORD

    def gradient(self, text: str) -> Written:
        space = "0.2em" if "." in text else "0"
        return f'<mrow><mo lspace="0" rspace="{space}">d</mo>{_math_name(text)}</mrow>', _WORD

    def equation(self, left: str, right: str) -> str:
        return f"{left}<mo>=</mo>{right}"

    def transposed(self, operand: Written) -> Written:
        return f'<msup>{_row(_bracketed(operand, _WORD))}<mi mathvariant="normal">T</mi></msup>', _WORD - 1

    def total(self, operand: Written, axes: Sequence[str] | None) -> Written:
        sign, operand_text = '<mo largeop="true">∑</mo>', _bracketed(operand, _PRODUCT)
        if axes is not None:
            names = "<mo>,</mo>".join(f"<mi>{escape(axis)}</mi>" for axis in axes)
            sign = f"<munder>{sign}<mrow>{names}</mrow></munder>"
        return f"{sign}{operand_text}", _INFIX["add"][1]

    def operation(self, kind: str, operands: Sequence[Written], attributes: Sequence[tuple[str, object]]) -> Written:
        if len(operands) == 2 and kind in _INFIX:
            first, second = operands
            if kind == "divide":
                return f"<mfrac>{_row(first[0])}{_row(second[0])}</mfrac>", _WORD
            if kind == "power":
                return f"<msup>{_row(_bracketed(first, _WORD))}{_row(second[0])}</msup>", _WORD - 1
            sign, precedence = _INFIX[kind]
            left, right = _sides(kind, precedence)
            between = f"<mo>{sign}</mo>" if sign else '<mspace width="0.2em"/>'
            return f"{_bracketed(first, left)}{between}{_bracketed(_right(second), right)}", precedence
        if len(operands) == 1 and not attributes:
            text = operands[0][0]
            if kind == "negative":
                return f"<mo>−</mo>{_bracketed(operands[0], _PRODUCT)}", _NEGATIVE
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

    `a − (b − c)` keeps its parentheses, `(a − b) − c` needs none; powers associate to the right.
    """
    after = precedence + 1 if kind in ("subtract", "divide") else precedence
    return precedence + 1 if kind == "power" else precedence, after


def _right(operand: Written) -> Written:
    """Return the right operand of an infix operator, after which a minus sign stands in parentheses."""
    text, precedence = operand
    return (text, 0) if text.startswith(("−", "<mo>−</mo>")) else (text, precedence)


def _within(operand: Written, precedence: int) -> str:
    return operand[0] if operand[1] >= precedence else f"({operand[0]})"


def _bracketed(operand: Written, precedence: int) -> str:
    return operand[0] if operand[1] >= precedence else f"<mrow><mo>(</mo>{operand[0]}<mo>)</mo></mrow>"


def _row(text: str) -> str:
    return f"<mrow>{text}</mrow>"


def _plain_number(text: str) -> str:
    """Return a whole number without its point, and other texts as they are."""
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text


def _math_name(text: str) -> str:
    """Return a number, or a name with its final digits as a subscript."""
    text = _plain_number(text)
    if re.fullmatch(r"-?\d[\d.e+-]*", text):
        return f"<mo>−</mo><mn>{text[1:]}</mn>" if text.startswith("-") else f"<mn>{text}</mn>"
    # It always matches.
    base, number = re.fullmatch(r"(.*?)(\d*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if not base or not number:
        return f"<mi>{escape(text)}</mi>"
    return f"<msub><mi>{escape(base)}</mi><mn>{number}</mn></msub>"


# Maximum column width; longer lines shift the text to their right.
_WIDEST = 40
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

    `dt` is the gradient with respect to `t`; read the gradients from the last line to the first. The notation is that
    of papers: `W x` is a matrix product, `a ⊙ b` one by elements, `Wᵀ` a transposed matrix, and axes of size one, as
    those that make a column of a vector, are left out. Raises `NotDifferentiable` for an op without gradient.

    >>> x = wy.Input(name="x")
    >>> print(to_derivation(x.sin() * x))  # doctest: +ELLIPSIS
    forward, top to bottom  backward, bottom to top
    x            ()         dx = dt₂ · t₁ + dt₁ · cos(x)
    t₁ = sin(x)  ()         dt₁ = dt₂ · x...
    t₂ = t₁ · x  ()         dt₂ = 1...
    """
    rows = rows_of(output, TextNotation())
    width = min(max((len(left) for left, *_ in rows), default=0), _WIDEST)
    lines = [
        _TITLES,
        *((f"{left:<{width}}  {dims}", right, f"# {line}" if line else "") for left, dims, right, line in rows),
    ]
    # The long lines of the left column shift the text to their right, and do not widen it.
    usual = [max(len(row[i]) for row in lines if i or len(row[0]) <= width + _WIDEST // 2) for i in range(2)]
    columns = [min(usual[0], width + _WIDEST // 2), min(usual[1], _WIDEST)]
    text = "\n".join(f"{a:<{columns[0]}}  {b:<{columns[1]}}  {c}".rstrip() for a, b, c in lines)
    derivation = Derivation(encodable(text))
    derivation.output = output
    return derivation


def rows_of(output: Node, notation: Notation) -> list[Row]:
    """Return for each value its equation, its axes, the equation of its gradient, and the user's line."""
    shown = [node for node in Schedule([output]).nodes if not _is_plain_number(node)]
    # Residuals have no gradient of their own: they only help to compute another operand's.
    residuals = {node.parents[position] for node in shown for position in node.residual_parents}
    differentiable = [
        node for node in shown if isinstance(node, Node) and node.dtype.kind == "f" and node not in residuals
    ]
    start = Input(dims=output.dims, dtype=output.dtype, name="1.0")
    found = pull_back([output], [start], differentiable)
    gradients: dict[BaseNode, Node] = {node: g for node, g in zip(differentiable, found, strict=True) if g is not None}
    whole = Schedule([output, *gradients.values()])
    same = whole.representative
    labels = _labels(shown)
    names: dict[BaseNode, Written] = {same[node]: notation.name(own) for node, own in labels.items()}
    texts: dict[BaseNode, str] = {}
    for node in reversed(shown):
        if node in gradients:
            gradient = same[gradients[node]]
            texts[node] = names[gradient][0] if gradient in names else _expression_of(gradient, names, same, notation)
            names.setdefault(gradient, notation.gradient(labels[node]))
    rows: list[Row] = []
    for node in shown:
        left, right = notation.name(labels[node])[0], ""
        if not node.is_leaf:
            left = notation.equation(left, _expression_of(node, names, same, notation, own=True))
        if node in texts:
            right = notation.equation(notation.gradient(labels[node])[0], texts[node])
        line = "" if node.is_leaf else f"{node.location} {node.location.source}".rstrip()
        rows.append((left, format_dims(node.dims), right, line))
    return rows


def _is_plain_number(node: BaseNode) -> bool:
    return isinstance(node, Constant) and node.name is None and node.dims == ()


def _labels(shown: Sequence[BaseNode]) -> dict[BaseNode, str]:
    """Return a name for each node: its own, for a repeated one of a parameter its path, else `t` with a number."""
    count = Counter(node.name for node in shown)
    paths = paths_of_parameters(shown)
    numbers = itertools.count(1)
    labels: dict[BaseNode, str] = {}
    taken: set[str] = set()
    for node in shown:
        own = node.name
        if own is not None and count[own] > 1:
            own = paths.get(node, own)
        if own is None or own in taken:
            own = f"t{next(numbers)}"
        taken.add(own)
        labels[node] = own
    return labels


def _expression_of(
    given: BaseNode,
    names: dict[BaseNode, Written],
    same: dict[BaseNode, BaseNode],
    notation: Notation,
    *,
    own: bool = False,
) -> str:
    """Return an op and its operands as an expression; unnamed operands are expanded.

    With `own`, the op has a line of its own, so that it is written even if it only adds an axis.
    """
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
            done[current] = known or notation.name(_leaf_text(current))
        elif ready:
            parents = [same[parent] for parent in current.parents]
            operands = [done[parent] for parent in parents]
            if _is_implicit(current, parents, own=own and current is node):
                done[current] = operands[0]
            else:
                rows = [parent not in names and _is_row(parent) for parent in parents]
                if current.op_name() == "matmul":
                    operands = [
                        notation.transposed(text) if is_row else text
                        for is_row, text in zip(rows, operands, strict=True)
                    ]
                is_column = current.op_name() == "transpose" and rows[0]
                done[current] = operands[0] if is_column else _written_operation(current, parents, operands, notation)
        else:
            stack.append((current, True))
            stack += [(same[parent], False) for parent in current.parents]
    return done[node][0]


# Ops that may only add or remove axes of size one.
_RESHAPING = frozenset({"reshape", "squeeze", "expand_dims", "sum"})


def _is_implicit(node: BaseNode, parents: Sequence[BaseNode], *, own: bool) -> bool:
    """Return whether a paper leaves an op out: broadcasting, as in NumPy, and axes of size one."""
    if node.op_name() == "broadcast_to":
        return True
    return not own and node.op_name() in _RESHAPING and _without_ones(node) == _without_ones(parents[0])


def _without_ones(node: BaseNode) -> list[object]:
    return [axis for axis in node.dims if axis_size(axis) != 1]


def _is_row(node: BaseNode) -> bool:
    """Return whether an op makes a row of a vector, which a paper writes as a transposed one."""
    return (
        node.op_name() in ("reshape", "expand_dims")
        and len(node.dims) == 2
        and len(node.parents[0].dims) == 1
        and axis_size(node.dims[0]) == 1
        and axis_size(node.dims[1]) != 1
    )


def _written_operation(
    node: BaseNode, parents: Sequence[BaseNode], operands: Sequence[Written], notation: Notation
) -> Written:
    kind, attributes = node.op_name(), node.attribute_values()
    if kind == "transpose":
        axes, rank = attributes["axes"], len(node.dims)
        if rank >= 2 and tuple(axes) == (*range(rank - 2), rank - 1, rank - 2):
            return notation.transposed(operands[0])
    if kind == "sum" and not attributes.get("keepdims"):
        axes = attributes["axis"]
        summed = None if len(axes) == len(parents[0].dims) else [_axis_text(parents[0], axis) for axis in axes]
        return notation.total(operands[0], summed)
    if kind == "multiply" and not any(parent.dims == () for parent in parents):
        kind = "elementwise"
    plain = (None, False)
    given = [(k, value) for k, value in attributes.items() if not isinstance(value, np.dtype) and value not in plain]
    return notation.operation(kind, operands, given)


def _axis_text(node: BaseNode, position: int) -> str:
    """Return the name of an axis, or its number."""
    return axis_name(node.dims[position]) or str(position)


def _leaf_text(leaf: BaseNode) -> str:
    array = stored(leaf).array
    small = array is not None and array.size <= 4
    return leaf.name or (repr(array.tolist()) if array is not None and small else type(leaf).__name__.lower())


def _argument_names(function: Function) -> list[str]:
    """Return the names of the arguments that a call by position must have."""
    found = inspect.signature(function.function).parameters.values()
    return [each.name for each in found if each.default is each.empty and each.kind is not each.KEYWORD_ONLY]


def show(function: Function | Kernel[Any, Any], *args: object, **kwargs: object) -> None:
    """Print the nodes of a call of the function beside the gradient of each; notebooks show a table of formulas.

    The call is that with the arguments given, of which only the shapes and types matter: nothing is computed. Without
    arguments it is the last call. `dt` is the gradient of the result with respect to `t`; read the gradients from the
    last line to the first. Of a `wy.kernel` the source is printed, and those of its adjoint and its tangent, for
    operands as in the last call, or as its annotations say.

    Raises `NotSet` without arguments before the first call, `TypeError` for anything but a `wy.function`, `ShapeError`
    if the result is not a single array, and `NotDifferentiable` for an op without gradient.

    >>> @wy.function
    ... def energy(x, y):
    ...     return (x * y).sin() + y
    >>> wy.show(energy, 1.0, 2.0)  # doctest: +ELLIPSIS
    forward, top to bottom  backward, bottom to top
    x             ()        dx = dt₁ · y
    y             ()        dy = dt₃ + dt₁ · x
    t₁ = x · y    ()        dt₁ = dt₃ · cos(t₁)...
    t₂ = sin(t₁)  ()        dt₂ = dt₃...
    t₃ = t₂ + y   ()        dt₃ = 1...
    """
    if isinstance(function, Kernel):
        print(function.listing())  # noqa: T201  # printing is its purpose
        return
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
    outputs = function.trace(*args, **kwargs).outputs if args or kwargs else function._last_call().trace.outputs
    if len(outputs) != 1:
        raise ShapeError(f"show needs a single result array; {name_of(function)} returns {len(outputs)}")
    derivation = to_derivation(outputs[0])
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(derivation)
    else:
        print(derivation)  # noqa: T201  # printing is its purpose
