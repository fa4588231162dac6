"""Which reads of elements still find the same number when the kernel has ended: those that nothing overwrites later."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from wyrm.ops.adjoints.program import Loop, Statement, Store, Turns, base, every, indices
from wyrm.ops.adjoints.rules import function_of
from wyrm.ops.adjoints.values import Kernel
from wyrm.ops.kernels.sums import natural

# An index: a variable and what is added to it, no variable for a number alone; None where it is something else.
_Index = tuple[str | None, int] | None


class Elements:
    """The writes of a kernel, by arrays."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.turns = {each.name: each for each in every(kernel.body) if isinstance(each, Turns)}
        # A bound below each integer, None where it is not known.
        self._least: dict[str, int | None] = {}
        self.writes: dict[str, list[tuple[Store, list[_Index]]]] = {}
        for each in every(kernel.body):
            if isinstance(each, Store):
                root = kernel.root(base(each.target))
                self.writes.setdefault(root, []).append((each, self.index(each.target)))

    def lasts(self, load: ast.Subscript, at: Statement) -> bool:
        """Return whether an element that a statement reads surely has the same value at the end of the kernel."""
        writes = self.writes.get(self.kernel.root(base(load)), [])
        if not writes:
            return True
        index = self.index(load)
        return all(self._before(write, place, at, index) for write, place in writes)

    def index(self, node: ast.Subscript) -> list[_Index]:
        """Return the indices of an element in the array behind its views."""
        found: list[ast.expr | None] = list(indices(node))
        value = node.value
        if self._has_ellipsis(node):
            return []
        while isinstance(value, ast.Subscript):
            found, value = self._through(value, found), value.value
        while isinstance(value, ast.Name) and value.id in self.kernel.views:
            view = self.kernel.views[value.id].value
            if isinstance(view, ast.Subscript):
                found = self._through(view, found)
                inner: ast.expr = view.value
                while isinstance(inner, ast.Subscript):
                    found, inner = self._through(inner, found), inner.value
                value = inner
            elif isinstance(view, ast.Name):
                value = view
            else:
                return [None] * len(found)  # a transposed array
        if not isinstance(value, ast.Name):
            return [None] * len(found)
        return [None if each is None else self._form(each) for each in found]

    def _has_ellipsis(self, node: ast.expr) -> bool:
        """Return whether an element is of a view with an ellipsis, whose indices are not counted here."""
        while True:
            if isinstance(node, ast.Subscript):
                if any(isinstance(i, ast.Constant) and i.value is ... for i in indices(node)):
                    return True
                node = node.value
            elif isinstance(node, ast.Name) and node.id in self.kernel.views:
                node = self.kernel.views[node.id].value
            else:
                return False

    def _through(self, view: ast.Subscript, rest: Sequence[ast.expr | None]) -> list[ast.expr | None]:
        """Return the indices of an element of a view in the array that it is of."""
        out: list[ast.expr | None] = []
        left = list(rest)
        for each in indices(view):
            if not isinstance(each, ast.Slice):
                out.append(each)
                continue
            own = left.pop(0) if left else None
            begins = each.lower is None or (isinstance(each.lower, ast.Constant) and each.lower.value == 0)
            ends_known = own is not None and self.is_natural(own)
            out.append(own if begins and each.step is None and ends_known else None)
        return [*out, *left]

    def _form(self, e: ast.expr) -> _Index:
        if not self.is_natural(e):
            return None  # it may count from the end
        match e:
            case ast.Constant(value=int() as value):
                return None, value
            case ast.Name(id=text):
                return text, 0
            case ast.BinOp(left=ast.Name(id=text), op=ast.Add(), right=ast.Constant(value=int() as value)):
                return text, value
            case ast.BinOp(left=ast.Constant(value=int() as value), op=ast.Add(), right=ast.Name(id=text)):
                return text, value
            case ast.BinOp(left=ast.Name(id=text), op=ast.Sub(), right=ast.Constant(value=int() as value)):
                return text, -value
        return None

    def is_natural(self, e: ast.expr) -> bool:
        """Return whether an integer is surely at least 0."""
        least = self.least(e)
        return least is not None and least >= 0

    def least(self, e: ast.expr) -> int | None:
        """Return a number that an integer is never below; None where none is known."""
        match e:
            case ast.Constant(value=int() as value):
                return int(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return -int(value)
            case ast.Attribute(attr="size") | ast.Subscript(value=ast.Attribute(attr="shape")):
                return 0
            case ast.Call(func=ast.Name(id="len")):
                return 0
            case ast.Name(id=text):
                return self._least_of(text)
            case ast.Call() if function_of(e, self.kernel.space) is natural:
                return 0
            case ast.Call(func=ast.Name(id="max"), args=given):
                known = [each for each in map(self.least, given) if each is not None]
                return max(known, default=None)
            case ast.Call(func=ast.Name(id="min"), args=given):
                bounds = list(map(self.least, given))
                return None if None in bounds else min(each for each in bounds if each is not None)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.least(left), self.least(right)
                return None if first is None or second is None else first + second
            case ast.BinOp(left=left, op=ast.Sub(), right=ast.Constant(value=int() as value)):
                first = self.least(left)
                return None if first is None else first - value
            case ast.BinOp(left=left, op=ast.Mult() | ast.FloorDiv(), right=right):
                first, second = self.least(left), self.least(right)
                return 0 if first is not None and second is not None and first >= 0 and second >= 0 else None
            case ast.BinOp(op=ast.Mod(), right=right):
                second = self.least(right)
                return 0 if second is not None and second >= 0 else None
        return None

    def _least_of(self, text: str) -> int | None:
        if text in self._least:
            return self._least[text]
        self._least[text] = None  # of a variable that depends on itself nothing is known
        found: int | None = None
        if text in self.turns:
            start, stop, step = self.turns[text].bounds
            way = self.least(step)
            if way is not None and way > 0:
                found = self.least(start)
            elif isinstance(step, ast.UnaryOp) and isinstance(step.operand, ast.Constant):
                last = self.least(stop)
                found = None if last is None else last + 1
        elif text in self.kernel.definitions:
            found = self.least(self.kernel.definitions[text].value)
        self._least[text] = found
        return found

    def _before(self, write: Store, place: Sequence[_Index], at: Statement, index: Sequence[_Index]) -> bool:
        """Return whether a write to an element surely comes before a read of the same element, or never meets it."""
        common: list[Loop] = [a for a, b in zip(write.loops, at.loops, strict=False) if a is b]
        inside = {each.name for each in common if isinstance(each, Turns)}
        distance: dict[str, int] = {}
        for w, r in zip(place, index, strict=False):
            if w is None or r is None:
                continue
            if w[0] == r[0]:
                if w[0] in inside:
                    distance[str(w[0])] = r[1] - w[1]  # by how much the variable is larger at the write
                elif w[1] != r[1] and (w[0] is None or self._is_fixed(w[0], common)):
                    return True
        for loop in common:
            if not isinstance(loop, Turns) or loop.name not in distance:
                return False
            way = self._way(loop.bounds[2])
            turn = distance[loop.name] * way
            if way == 0:
                return False
            if turn:
                return turn < 0
        return write.number < at.number

    def _way(self, step: ast.expr) -> int:
        """Return the sign of a step, 0 if it is not known."""
        match step:
            case ast.Constant(value=int() as value):
                return (value > 0) - (value < 0)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return (value < 0) - (value > 0)
        return 0

    def _is_fixed(self, text: str, common: Sequence[Loop]) -> bool:
        """Return whether a variable has one value in all turns of these loops."""
        let = self.kernel.definitions.get(text)
        if let is not None:
            return set(let.loops).isdisjoint(common)
        return text in self.kernel.parameters
