"""Checks of indices, moved out of loops: one test before a loop takes the place of a test in each turn.

The first and the last turn of a loop tell whether `j + c` is in range in all of them. Where every turn runs to its end,
an index out of range is certain to be met, so the test may stand before the loop, and fail before anything is written.
LLVM compiles loops without exits in half of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from wyrm.engines.native.ir.program import (
    AddressOf,
    Assign,
    Expression,
    Fail,
    For,
    If,
    Invoke,
    Leave,
    Number,
    Operation,
    Return,
    Select,
    Statement,
    Variable,
    While,
    assigned,
    every,
)
from wyrm.engines.native.ir.types import BOOL, INT64
from wyrm.support.frozen import frozen

_ZERO = Number(0, INT64)


@frozen
class Sum:
    """A sum of int64 variables, each with a factor, and a constant, modulo 2**64."""

    terms: tuple[tuple[Variable, int], ...] = ()
    constant: int = 0

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """Return the sum with another one times a factor."""
        terms = dict(self.terms)
        for variable, times in other.terms:
            terms[variable] = terms.get(variable, 0) + factor * times
        kept = sorted(((variable, times) for variable, times in terms.items() if times), key=_name)
        return Sum(tuple(kept), self.constant + factor * other.constant)

    def factor(self, variable: Variable) -> int:
        """Return the factor of a variable."""
        return next((times for each, times in self.terms if each == variable), 0)

    def expression(self) -> Expression:
        """Return the sum as an expression."""
        constant = (self.constant + 2**63) % 2**64 - 2**63  # as int64
        found: Expression = Number(constant, INT64)
        for variable, times in self.terms:
            value: Expression = variable
            if times != 1:
                value = Operation("multiply", (variable, Number(times, INT64)), INT64)
            found = value if found == _ZERO else Operation("add", (found, value), INT64)
        return found


def _name(term: tuple[Variable, int]) -> str:
    return term[0].name


@frozen
class Check:
    """That an index is at least 0 and less than a size, or all `less` instead, where all counts are more than 0."""

    index: Sum
    size: Sum
    less: tuple[Sum, ...] = ()
    counts: tuple[Sum, ...] = ()

    def over(self, loop: Variable, count: Sum) -> Check | None:
        """Return the check for all turns of a loop; None where one does not tell.

        It is that of the least index, and of a size less by the turns after the first. No sum that wraps around passes:
        a size is at least 0, one that was made less is tested itself, and a count is at least 1.
        """
        step = self.index.factor(loop)
        used = (self.size, *self.less, *self.counts, count)
        if step not in (-1, 0, 1) or any(each.factor(loop) for each in used):
            return None
        index, less = self.index.plus(Sum(((loop, 1),)), -step), self.less
        later = count.plus(Sum(constant=1), -1)
        if step:
            less = (*less, (less[-1] if less else self.size).plus(later, -1))
        return Check(index.plus(later, -1) if step < 0 else index, self.size, less, (*self.counts, count))

    @property
    def passes(self) -> bool:
        """Whether the check passes whatever the variables are."""
        size = self.less[-1] if len(self.less) == 1 else self.size
        return not (self.index.terms or size.terms or self.less[1:]) and 0 <= self.index.constant < size.constant

    def mapped(self, to: Callable[[Sum], Sum | None]) -> Check | None:
        """Return the check with other sums in place of its own; None where one of them has none."""
        index, size, *rest = map(to, (self.index, self.size, *self.less, *self.counts))
        found = [each for each in rest if each is not None]
        if index is None or size is None or len(found) < len(rest):
            return None
        return Check(index, size, tuple(found[: len(self.less)]), tuple(found[len(self.less) :]))

    def fails(self) -> Expression:
        """Return whether the check fails where all counts are more than 0."""
        index = self.index.expression()
        tests = [Operation("greater_equal", (index, each.expression()), BOOL) for each in self.less or (self.size,)]
        if not isinstance(index, Number) or index.value < 0:
            tests.append(Operation("less", (index, _ZERO), BOOL))
        return _joined("or", tests)


def _joined(name: str, values: Sequence[Expression]) -> Expression:
    return reduce(lambda x, y: Operation(name, (x, y), BOOL), values)


def hoisted(body: Sequence[Statement], code: Expression, fails: Callable[[str], bool]) -> tuple[Statement, ...]:
    """Return the body of a function with its checks of indices, which fail with this code, where they are made least.

    `fails`: whether a function that the body calls may fail.
    """
    return _Hoisting((Fail(code),), fails).block(body, _Scope(body))


class _Scope:
    """The values of the variables of a block that are sums of what does not change in the block.

    `natural`: variables that are at least 0. `made`: checks that were made before a statement of the block.
    """

    def __init__(self, body: Sequence[Statement], around: _Scope | None = None, *indices: Variable) -> None:
        self._changed = Counter(each for statement in every(body) for each in assigned(statement))
        self.natural: frozenset[Variable] = frozenset(indices)
        self.made: set[Check] = set()
        self._known: dict[Variable, Sum] = {}
        if around is not None:
            self.natural |= around.natural
            self.made |= {each for each in around.made if self._stays(each.index) and self._stays(each.size)}
            self._known |= {
                variable: value
                for variable, value in around._known.items()
                if variable not in self._changed and self._stays(value)
            }

    def _stays(self, value: Sum) -> bool:
        return not any(each in self._changed for each, _ in value.terms)

    def inside(self, body: Sequence[Statement], *indices: Variable) -> _Scope:
        """Return the scope of a block in this one, a loop's with its index."""
        return _Scope(body, self, *indices)

    def note(self, variable: Variable, value: Expression) -> None:
        """Note an assignment at the top of the block."""
        if variable.type == INT64 and self._changed[variable] == 1:
            found = self.sum(value)
            if found is not None:
                self._known[variable] = found

    def sum(self, value: Expression) -> Sum | None:
        """Return the sum that an expression is; None if it is of another form, or changes in the block."""
        match value:
            case Variable(_, type) if type == INT64:
                if value in self._known:
                    return self._known[value]
                return None if value in self._changed else Sum(((value, 1),))
            case Number(int() as constant, type) if type == INT64:
                return Sum(constant=constant)
            case Operation("add" | "step" | "subtract" as name, (x, y), type) if type == INT64:
                first, second = self.sum(x), self.sum(y)
                if first is not None and second is not None:
                    return first.plus(second, -1 if name == "subtract" else 1)
            case Select(Operation("less", (x, zero)), _, y) if x == y and zero == _ZERO:
                # An index, which counts from the end where it is less than 0.
                found = self.sum(x)
                return found if found is not None and self._is_natural(found) else None
        return None

    def _is_natural(self, found: Sum) -> bool:
        return found.constant >= 0 and all(times > 0 and each in self.natural for each, times in found.terms)

    def within(self, check: Check) -> Check | None:
        """Return a check in terms of what does not change in the block; None if it changes."""
        return check.mapped(self._resolved)

    def _resolved(self, given: Sum) -> Sum | None:
        found = Sum(constant=given.constant)
        for variable, times in given.terms:
            value = self.sum(variable)
            if value is None:
                return None
            found = found.plus(value, times)
        return found

    def check(self, condition: Expression) -> Check | None:
        """Return the check that a condition fails."""
        match condition:
            case Operation("or", (Operation("less", (index, zero)), Operation("greater_equal", (same, size)))) if (
                index == same and zero == _ZERO
            ):
                first, second = self.sum(index), self.sum(size)
                return None if first is None or second is None else Check(first, second)
        return None


def _without_smaller(checks: Iterable[Check]) -> list[Check]:
    """Return checks without duplicates, and of constant indices of an array the largest alone."""
    found: dict[object, Check] = {}
    for each in checks:
        constant = not each.index.terms and each.index.constant >= 0
        key: object = (each.size, each.less, each.counts) if constant else each
        other = found.setdefault(key, each)
        if each.index.constant > other.index.constant:
            found[key] = each
    return list(found.values())


class _Hoisting:
    def __init__(self, fail: tuple[Fail], fails: Callable[[str], bool]) -> None:
        self._fail, self._fails = fail, fails

    def block(self, body: Sequence[Statement], scope: _Scope) -> tuple[Statement, ...]:
        """Return a block that makes its checks at its begin where it can."""
        rest, checks = self._apart(body, scope)
        return (*self._made(checks), *rest)

    def _made(self, checks: Iterable[Check]) -> list[Statement]:
        """Return the statement that makes checks, if there are any."""
        by_counts: dict[tuple[Sum, ...], list[Expression]] = {}
        for each in _without_smaller(checks):
            if not each.passes:
                by_counts.setdefault(tuple(dict.fromkeys(each.counts)), []).append(each.fails())
        tests = []
        for counts, found in by_counts.items():
            turns = [Operation("greater", (count.expression(), _ZERO), BOOL) for count in counts]
            tests.append(_joined("and", [*turns, _joined("or", found)]))
        return [If(_joined("or", tests), self._fail)] if tests else []

    def _apart(self, body: Sequence[Statement], scope: _Scope) -> tuple[list[Statement], list[Check]]:
        """Return a block without the checks that can be made before it, and these."""
        rest: list[Statement] = []
        before: list[Check] = []
        certain = True  # whether each run of the block comes to this statement
        for each in body:
            match each:
                case If(condition, then, ()) if then == self._fail:
                    check = scope.check(condition)
                    if check is None or not (certain or check in scope.made):
                        rest.append(each)
                    elif check not in scope.made:
                        before.append(check)
                        scope.made.add(check)
                    continue
                case If(condition, then, otherwise):
                    parts = [self.block(part, scope.inside(part)) for part in (then, otherwise)]
                    rest.append(If(condition, *parts))
                case While(condition=condition, body=inner):
                    rest.append(replace(each, body=self.block(inner, scope.inside(inner))))
                case For(index, count, inner):
                    inside = scope.inside(inner, index)
                    turn, checks = self._apart(inner, inside)
                    here, in_turn = self._over(checks, index, inside.sum(count), inner)
                    moved = [scope.within(check) if certain else None for check in here]
                    before += [check for check in moved if check is not None]
                    rest += self._made(check for check, found in zip(here, moved, strict=True) if found is None)
                    rest.append(replace(each, body=(*self._made(in_turn), *turn)))
                case Assign(variable, value):
                    scope.note(variable, value)
                    rest.append(each)
                case _:
                    rest.append(each)
            certain = certain and not self._leaves([each])
        return rest, before

    def _over(
        self, checks: list[Check], index: Variable, count: Sum | None, body: Sequence[Statement]
    ) -> tuple[list[Check], list[Check]]:
        """Return the checks to be made before a loop, and those that each turn makes."""
        if count is None or self._leaves(body, ends=True):
            return [], checks
        found = [(check, check.over(index, count)) for check in checks]
        return [over for _, over in found if over is not None], [check for check, over in found if over is None]

    def _leaves(self, body: Sequence[Statement], ends: bool = False) -> bool:
        """Return whether statements may leave the block; with `ends`, the loop whose turn they are before its end."""
        for each in body:
            match each:
                case Leave(next):
                    if not (next and ends):
                        return True
                case Return() | AddressOf():
                    return True
                case Fail():
                    if (each,) != self._fail:
                        return True
                case Invoke(function=name):
                    if self._fails(name):
                        return True
                case If(_, then, otherwise):
                    if self._leaves(then, ends) or self._leaves(otherwise, ends):
                        return True
                case For() | While():
                    inner = [one for one in every([each]) if not isinstance(one, If | For | While | Leave)]
                    if self._leaves(inner):
                        return True
        return False
