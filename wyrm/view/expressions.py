"""Operations as expressions, in text and in MathML, which browsers typeset."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Protocol

# An expression and its precedence.
Written = tuple[str, int]
# Symbol and precedence of each infix operator.
_INFIX = {
    "add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2), "matmul": ("@", 2),
    "power": ("**", 4),
}  # fmt: skip
_NEGATIVE, _WORD = 3, 5


class Notation(Protocol):
    """A way to write expressions."""

    def name(self, text: str) -> Written:
        """Return a name or a number."""

    def gradient(self, text: str) -> Written:
        """Return the name of the gradient with respect to a name."""

    def equation(self, left: str, right: str) -> str:
        """Return that both are equal."""

    def operation(self, kind: str, operands: Sequence[Written], attributes: Sequence[tuple[str, object]]) -> Written:
        """Return an operation on its written operands, with its static attributes."""


class TextNotation:
    """Expressions as Python writes them."""

    def name(self, text: str) -> Written:
        return text, _WORD

    def gradient(self, text: str) -> Written:
        return f"d{text}", _WORD

    def equation(self, left: str, right: str) -> str:
        return f"{left} = {right}"

    def operation(self, kind: str, operands: Sequence[Written], attributes: Sequence[tuple[str, object]]) -> Written:
        if kind in _INFIX and len(operands) == 2:
            sign, precedence = _INFIX[kind]
            left, right = _sides(kind, precedence)
            return f"{_within(operands[0], left)} {sign} {_within(operands[1], right)}", precedence
        if kind == "negative":
            return f"-{_within(operands[0], _NEGATIVE)}", _NEGATIVE
        named = [f"{key}={value!r}" for key, value in attributes]
        return f"{kind}({', '.join([*(text for text, _ in operands), *named])})", _WORD


class MathNotation:
    """Expressions in MathML."""

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
    """Return a name, whose number at the end is a subscript, or a number."""
    if re.fullmatch(r"-?\d[\d.e+-]*", text):
        return f"<mo>-</mo><mn>{text[1:]}</mn>" if text.startswith("-") else f"<mn>{text}</mn>"
    base, number = re.fullmatch(r"(.*?)(\d*)", text, re.DOTALL).groups()  # type: ignore[union-attr]  # it always matches
    if not base or not number:
        return f"<mi>{escape(text)}</mi>"
    return f"<msub><mi>{escape(base)}</mi><mn>{number}</mn></msub>"
