"""Expressions as a paper writes them, as text and as MathML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

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
