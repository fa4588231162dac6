"""Cotangents that multiply last: a turn computes its derivatives while it waits for the cotangent of the turn before.

Where a turn reads the cotangent `g` of one element, and adds to that of an element which the next turn reads, each
turn waits for the one before. In `d[i - 1] += g / total * e / scale` it waits for two divisions and two
multiplications, in `d[i - 1] += (1.0 / total * e / scale) * g` for one multiplication.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence

from wyrm.ops.adjoints.program import base, name, names
from wyrm.ops.adjoints.rules import is_literal, negated, times
from wyrm.ops.adjoints.values import Kernel

# What operations take in cycles, about, and from how many on the order is changed.
_SUM, _PRODUCT, _QUOTIENT, _LONG = 4, 4, 14, 12


def factored(code: list[ast.stmt], kernel: Kernel, prefix: str, temporaries: Collection[str]) -> list[ast.stmt]:
    """Return a backward sweep in which long products of loops begin with their factors, and end with the cotangent."""
    used = Counter(each.id for s in code for each in ast.walk(s) if isinstance(each, ast.Name))

    def walk(code: list[ast.stmt]) -> list[ast.stmt]:
        for each in code:
            if isinstance(each, ast.For | ast.If):
                each.body, each.orelse = walk(each.body), walk(each.orelse)
            if isinstance(each, ast.For):
                each.body = _Turn(each.body, kernel, prefix, temporaries).changed(used) or each.body
        return code

    return walk(code)


class _Mixed(Exception):
    """Something other than a product with one cotangent."""


class _Turn:
    """The body of a loop that runs backwards."""

    def __init__(self, body: Sequence[ast.stmt], kernel: Kernel, prefix: str, temporaries: Collection[str]) -> None:
        self.body, self.kernel, self.prefix, self.temporaries = body, kernel, prefix, temporaries
        # The variable that holds the cotangent, and the array that it is an element of.
        self.source = self.root = ""
        # The variables that are the cotangent times a factor, which they hold then; and how long each waits for it.
        self.waits: dict[str, int] = {}
        self.longest = 0

    def changed(self, used: Counter[str]) -> list[ast.stmt] | None:
        """Return the body in the other order, None where it stays."""
        try:
            out = [self._statement(each) for each in self.body]
        except _Mixed:
            return None
        if self.longest < _LONG:
            return None
        inside = Counter(each.id for s in self.body for each in ast.walk(s) if isinstance(each, ast.Name))
        if any(used[text] != inside[text] for text in self.waits):
            return None
        return out

    def _is_cotangent(self, text: str) -> bool:
        return text.startswith(self.prefix) or text in self.temporaries

    def _root(self, target: ast.expr) -> str:
        return self.kernel.root((base(target) or "").removeprefix(self.prefix))

    def _statement(self, s: ast.stmt) -> ast.stmt:
        match s:
            case ast.Assign(targets=[ast.Name(id=text)]) if self._is_view(text):
                return s
            case ast.Assign(targets=[target], value=ast.Constant(value=0.0)) if self._is_cotangent(base(target) or ""):
                if isinstance(target, ast.Name):
                    self._give(target.id, 0)
                return s
            case ast.Assign(targets=[ast.Name(id=text)], value=ast.Subscript() as value) if self._begins(text, value):
                return s
            case ast.Assign(targets=[ast.Name(id=text) as target], value=value) if self._is_cotangent(text):
                factor, wait = self._factor(value)
                self._give(text, wait)
                return ast.Assign([target], factor, lineno=0)
            case ast.AugAssign(target=ast.Name(id=text) as target, op=op, value=value) if text in self.waits:
                factor, wait = self._factor(value)
                self.waits[text] = max(self.waits[text], wait) + _SUM
                return ast.AugAssign(target, op, factor)
            case ast.AugAssign(target=target, op=op, value=value) if self._is_cotangent(base(target) or ""):
                factor, wait = self._factor(value)
                if isinstance(target, ast.Subscript) and self._root(target) == self.root:
                    self.longest = max(self.longest, wait)
                minus = isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub)
                if minus and isinstance(op, ast.Add | ast.Sub):
                    factor, op = negated(factor), ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                return ast.AugAssign(target, op, times(factor, name(self.source)))
        if any(map(self._is_cotangent, names(s))):
            raise _Mixed
        return s

    def _is_view(self, text: str) -> bool:
        """Return whether a variable is a view of values or of cotangents."""
        found = self.kernel.kinds.get(text.removeprefix(self.prefix))
        return found is not None and found.is_array

    def _give(self, text: str, wait: int) -> None:
        if text == self.source:
            raise _Mixed
        self.waits[text] = max(wait, self.waits.get(text, 0))

    def _begins(self, text: str, value: ast.Subscript) -> bool:
        """Note the cotangent of an element, of float64, which a turn reads; return whether it is the first one."""
        root = self._root(value)
        if not self._is_cotangent(base(value) or "") or self.kernel.kinds[root].type != "f8":
            return False
        if self.source or text in self.waits:
            raise _Mixed
        self.source, self.root = text, root
        return True

    def _factor(self, e: ast.expr) -> tuple[ast.expr, int]:
        """Return what the cotangent is multiplied with in an expression, and how long the product waits for it."""
        match e:
            case ast.Name(id=text) if text == self.source:
                return ast.Constant(1.0), 0
            case ast.Name(id=text) if text in self.waits:
                return e, self.waits[text]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                factor, wait = self._factor(x)
                return negated(factor), wait
            case ast.BinOp(left=x, op=ast.Add() | ast.Sub() as op, right=y):
                (first, a), (second, b) = self._factor(x), self._factor(y)
                return ast.BinOp(first, op, second), max(a, b) + _SUM
            case ast.BinOp(left=x, op=ast.Mult(), right=y) if self._is_fixed(y):
                factor, wait = self._factor(x)
                return _product(factor, y), wait + _PRODUCT
            case ast.BinOp(left=x, op=ast.Mult(), right=y) if self._is_fixed(x):
                factor, wait = self._factor(y)
                return _product(factor, x), wait + _PRODUCT
            case ast.BinOp(left=x, op=ast.Div() as op, right=y) if self._is_fixed(y):
                factor, wait = self._factor(x)
                return ast.BinOp(factor, op, y), wait + _QUOTIENT
        raise _Mixed

    def _is_fixed(self, e: ast.expr) -> bool:
        """Return whether an expression does not depend on cotangents."""
        return not any(map(self._is_cotangent, names(e)))


def _product(factor: ast.expr, other: ast.expr) -> ast.expr:
    minus = isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub)
    if minus and is_literal(negated(factor), 1.0):
        return negated(other)
    return times(factor, other)
