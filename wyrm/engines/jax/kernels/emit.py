"""Runs the statements of a loop program with values that JAX traces.

A branch with an unknown condition runs both ways, and its results are selected. What stands behind a `break` or a
`return` is such a branch. A loop whose turns are found to be independent runs once, for all turns at the same time;
others are loops of JAX, of one turn after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from wyrm.engines.jax.kernels.indices import Integer, Lane, Traced, aligned, box, by_axes, traced
from wyrm.engines.jax.kernels.operations import apply, bits, converted, either
from wyrm.engines.native.ir.program import (
    AddressOf,
    Assign,
    Atomic,
    Bits,
    Conversion,
    Expression,
    Fail,
    For,
    If,
    Invoke,
    Leave,
    LibraryCall,
    Load,
    LoopFunction,
    Number,
    Offset,
    Operation,
    Return,
    Select,
    ShiftedSums,
    Statement,
    StoreAt,
    Table,
    TiledProduct,
    Variable,
    While,
    assigned,
    children,
    every,
)
from wyrm.engines.native.ir.types import BOOL, FLOAT32, FLOAT64, INT64, PointerType, ScalarType
from wyrm.engines.native.kernels.translate import Translation
from wyrm.engines.native.kernels.values import NotCompiled
from wyrm.ops.elementwise import fast_math
from wyrm.ops.kernels.loops_jax import steady
from wyrm.support.frozen import frozen
from wyrm.support.imports import jax, jnp

# Loops of at most so many turns, and turns times statements, are written out.
_MOST_TURNS, _MOST_STATEMENTS = 16, 200
# Functions of float64 that XLA has operations for.
_FLOAT64 = {fast_math.float64_exp: "exp", fast_math.float64_tanh: "tanh"}
# Whether a function still runs, has left the loop, and has returned; `@0` is its first result.
_LIVE, _LEFT, _RETURNED = "@live", "@left", "@returned"
# Whether a loop has another turn, and whether a `raise` was met.
_GOES, _FAILED = "@goes", "@failed"
Body = Callable[[], None]
_MISSING: dict[type[Statement], str] = {
    LibraryCall: "call no functions of LAPACK, numba or C",
    TiledProduct: "have no products by tiles: multiply in loops",
    ShiftedSums: "have no sums by tiles: add in loops",
    Table: "call no functions of numba",
    Atomic: "share no words between threads",
    AddressOf: "have no addresses",
}


@frozen
class Place:
    """The position of an element of an array, which a pointer points to."""

    array: int
    position: Integer


class Dependent(Exception):
    """The turns of a loop, the lanes, that are not known to be independent."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.lane = lane


class InOrder(Exception):
    """A loop whose turns run in order when the program is translated again: what its last turn assigned is read."""

    def __init__(self, loop: For) -> None:
        super().__init__()
        self.loop = loop


class _Unset:
    """The value of a variable in the turns of a loop before they assign it; `loop` says whose last turn it is of."""

    def __init__(self, lane: Lane, loop: For) -> None:
        self.lane, self.loop = lane, loop


Value = Any  # an `Integer`, a scalar of NumPy, an array of JAX, a `Place` or `_Unset`


class Emitter:
    """The state of a program while it is translated: variables, arrays, and the lanes that are computed at once."""

    def __init__(
        self, translation: Translation, in_order: set[int], arrays: Sequence[Any], lanes: Sequence[Lane]
    ) -> None:
        self.translation, self.in_order = translation, in_order
        self.arrays, self.lanes = list(arrays), list(lanes)
        # Which loops run at once around a statement.
        self._at_once_loops: list[int] = []
        self.shapes = [each.shape for each in arrays]
        self.variables: dict[str, Value] = {}
        # Where lanes run: a bool for each; None where all do.
        self.mask: Any = None
        self._function: LoopFunction | None = None
        self._current: Statement | None = None
        # Each access to an array in order: the array, whether it is a write, and the indices, if they are known.
        self._accesses: list[tuple[int, bool, tuple[Integer, ...] | None]] = []
        # The sums of the innermost loops of lanes, by their variables: the lane and the number of branches around.
        self._sums: dict[str, tuple[Lane, int]] = {}
        self._branches = 0
        # Whether statements are inside of a `while`, in any function.
        self._in_while = False
        # The shapes of the states of loops that are translated again, inside of others.
        self._shapes: dict[tuple[int, ...], list[tuple[int, ...]]] = {}

    # --- functions ------------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """Run a function and return its results."""
        found = self.translation.functions[name]
        function = found.function
        python = getattr(found.source, "function", None)
        if python is not None and function.results == (FLOAT32,) and getattr(python, "of_xla", False):
            return [apply(python.__name__, arguments, FLOAT32)]
        if python in _FLOAT64:
            return [apply(_FLOAT64[python], arguments, FLOAT64)]
        around = self.variables, self._function, self._sums
        self.variables = {each.name: _zero(each.type) for each in function.cleared if isinstance(each.type, ScalarType)}
        self.variables |= dict(zip((each.name for each in function.parameters), arguments, strict=True))
        self.variables |= {_LIVE: np.True_, _LEFT: np.False_, _RETURNED: np.False_}
        self.variables[_FAILED] = around[0].get(_FAILED, np.False_)
        self._function, self._sums = function, {}
        failed = self.variables[_FAILED]
        try:
            self.block(function.body)
            failed = self.variables[_FAILED]
            # A function that raises an error at its end has no result there.
            zeros = {f"@{place}": _zero(type) for place, type in enumerate(function.results) if function.fails}  # type: ignore[arg-type]  # no pointers
            return [{**zeros, **self.variables}[f"@{place}"] for place in range(len(function.results))]
        finally:
            self.variables, self._function, self._sums = around
            self.variables[_FAILED] = failed

    def refused(self, what: str) -> NotCompiled:
        """Return the error of code that has no form in JAX."""
        assert self._function is not None
        found = self.translation.functions[self._function.name]
        return NotCompiled(f"kernels for JAX {what}", found.source.where(found.lines.get(id(self._current))))

    # --- statements -----------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[Statement]) -> None:
        """Run statements; those behind one that may leave are a branch."""
        for position, each in enumerate(statements):
            self._statement(each)
            live = self.variables[_LIVE]
            if isinstance(live, np.bool_):
                if not live:
                    return
            else:
                if rest := statements[position + 1 :]:
                    self.branch(live, partial(self.block, rest))
                return

    def _statement(self, statement: Statement) -> None:
        self._current = statement
        match statement:
            case Assign(variable, Operation("accumulate", (Variable(name), term))) if name in self._sums:
                self._add_up(variable, term)
            case Assign(variable, value):
                self.variables[variable.name] = self.value(value)
            case StoreAt(pointer, index, value):
                self._store(self._element(pointer, index), self.value(value))
            case For():
                self._for(statement)
            case While():
                self._while(statement)
            case If(condition, body, otherwise):
                self.branch(self.value(condition), lambda: self.block(body), lambda: self.block(otherwise))
            case Leave(next):
                self.variables |= {_LIVE: np.False_, _LEFT: np.bool_(not next) | self.variables[_LEFT]}
            case Return(values):
                results = {f"@{place}": self.value(each) for place, each in enumerate(values)}
                self.variables |= {_LIVE: np.False_, _LEFT: np.True_, _RETURNED: np.True_} | results
            case Fail():
                # What follows runs, for nothing; only a loop of unknown length ends.
                self.variables[_FAILED] = np.True_
                if self._in_while:
                    self.variables |= {_LIVE: np.False_, _LEFT: np.True_}
            case Invoke(results, function, arguments):
                found = self.call(function, [self.value(each) for each in arguments])
                self.variables |= {each.name: value for each, value in zip(results, found, strict=True)}
            case _:
                raise self.refused(_MISSING.get(type(statement), f"have no {type(statement).__name__}"))

    def branch(self, condition: Any, body: Body, otherwise: Body = lambda: None) -> None:
        """Run `body` where a condition holds, and `otherwise` where it does not."""
        if isinstance(condition, np.bool_):
            return body() if condition else otherwise()
        before, mask, found = self.variables, self.mask, []
        self._branches += 1
        for holds, run in ((condition, body), (_not(condition), otherwise)):
            self.variables = dict(before)
            self.mask = holds if mask is None else apply("and", [mask, holds], BOOL)
            run()
            found.append(self.variables)
        self._branches -= 1
        self.mask = mask
        first, second = found
        self.variables = {
            name: self._merged(condition, first.get(name), second.get(name)) for name in {**first, **second}
        }

    def _merged(self, condition: Any, first: Value, second: Value) -> Value:
        """Return a variable's value behind a branch, from those of both ways; None where a way does not assign it."""
        if first is second or second is None or isinstance(first, _Unset):
            return first
        if first is None or isinstance(second, _Unset):
            return second
        if isinstance(first, Place):
            if first.array != second.array:
                raise self.refused("have no variable for one array or another one: write both branches out")
            return Place(first.array, self._merged(condition, first.position, second.position))
        if isinstance(first, Integer):
            if first == second:
                return first
            (low, high), (other_low, other_high) = first.ends(), second.ends()
            found = either(condition, first.array(), second.array())
            least = None if low is None or other_low is None else min(low, other_low)
            return traced(found, least, None if high is None or other_high is None else max(high, other_high))
        if isinstance(first, np.generic) and isinstance(second, np.generic) and first.tobytes() == second.tobytes():
            return first
        return either(condition, first, second)

    # --- loops ----------------------------------------------------------------------------------------------------

    def _for(self, loop: For) -> None:
        count = self.integer(loop.count)
        number = count.known
        if number is not None and number <= 0:
            return
        body = list(every(loop.body))
        plain = not any(isinstance(each, For | While) for each in body)
        if number == 1 or (
            number is not None and number <= _MOST_TURNS and plain and number * len(body) <= _MOST_STATEMENTS
            and not any(isinstance(each, StoreAt) for each in body)
        ):  # fmt: skip
            self._written_out(loop, number)
        elif number is None or id(loop) in self.in_order or not self._at_once(loop, number):
            self._in_order(loop, count)

    def _written_out(self, loop: For, count: int) -> None:
        """Run the turns of a short loop one after the other."""

        def turn(number: int) -> None:
            self.variables[loop.index.name] = Integer(number)
            self.block(loop.body)
            self.variables[_LIVE] = _not(self.variables[_LEFT])
            if number + 1 < count:
                self.branch(self.variables[_LIVE], lambda: turn(number + 1))

        turn(0)
        self._behind_loop()

    def _behind_loop(self) -> None:
        returned = self.variables[_RETURNED]
        self.variables |= {_LIVE: _not(returned), _LEFT: returned}

    def _at_once(self, loop: For, count: int) -> bool:
        """Run all turns of a loop at the same time; return False, with nothing done, if one may depend on another."""
        lane = Lane(len(self.lanes), count)
        before = self.variables, list(self.arrays), self._sums, len(self._accesses), self._branches, self.mask
        own = {each.name: each for one in every(loop.body) for each in assigned(one)}
        sums = {name for name in own if self.variables.get(name) is not None and _is_sum(name, loop)}
        kept = {name: value for name, value in self.variables.items() if name not in own or name in sums}
        self.variables = {**kept, **{name: _Unset(lane, loop) for name in own if name not in sums}}
        self.variables[loop.index.name] = Integer(0, ((lane, 1),))
        self._sums = {**self._sums, **dict.fromkeys(sums, (lane, self._branches))}
        self.lanes.append(lane)
        self._at_once_loops.append(id(loop))
        try:
            self.block(loop.body)
            if self.variables[_LEFT] is not np.False_ or not self._are_apart(lane, before[3]):
                raise Dependent(lane)
        except Dependent as error:
            self.variables, arrays, self._sums, seen, self._branches, self.mask = before
            self.arrays[:] = arrays
            del self._accesses[seen:]
            if error.lane is not lane:
                raise
            return False
        finally:
            self.lanes.pop()
            self._at_once_loops.pop()
        assert self._function is not None
        outside = _read_outside(self._function, loop)
        for name in [*own, loop.index.name]:
            value = self.variables.pop(name, None)
            if name in sums:
                self.variables[name] = value
            elif name in outside and value is not None:
                self.variables[name] = self._of_last(value, lane)
        self._sums = before[2]
        failed = self.variables[_FAILED]
        if np.ndim(failed) > lane.level:
            self.variables[_FAILED] = failed.any(axis=lane.level)
        self.variables |= {_LIVE: np.True_}
        return True

    def _of_last(self, value: Value, lane: Lane) -> Value:
        """Return the value that a variable has in the last turn."""
        if isinstance(value, Integer):
            terms = [each for each in value.terms if each[0] is not lane]
            last = sum(factor * (lane.size - 1) for term, factor in value.terms if term is lane)
            found = Integer(value.constant + last)
            for term, factor in terms:
                assert isinstance(term, Traced | Lane)
                part = self._of_last(term.value, lane) if isinstance(term, Traced) else None
                known = Integer(0, ((term, factor),)) if part is None else traced(part).times(factor)
                found = found + known
            return found
        if isinstance(value, Place):
            return Place(value.array, self._of_last(value.position, lane))
        if isinstance(value, _Unset) or np.ndim(value) <= lane.level:
            return value
        return value[..., -1]

    def _are_apart(self, lane: Lane, start: int) -> bool:
        """Return whether each turn has an index of its own along one axis of each array that turns write to."""
        found = self._accesses[start:]
        written = {array for array, writes, _ in found if writes}
        return all(self._is_apart(lane, [axes for array, _, axes in found if array == each]) for each in written)

    def _is_apart(self, lane: Lane, accesses: Sequence[tuple[Integer, ...] | None]) -> bool:
        first, *rest = accesses
        if first is None:
            return False
        for axis, index in enumerate(first):
            only = len(index.terms) == 1 and index.terms[0][0] is lane
            if only and all(axes is not None and axes[axis] == index for axes in rest):
                return True
        return False

    def _in_order(self, loop: For, count: Integer) -> None:
        """Run the turns of a loop one after the other, in a loop of JAX."""
        leaves = any(isinstance(each, Leave | Return) for each in every(loop.body))
        leaves = leaves or (self._in_while and any(isinstance(each, Fail) for each in every(loop.body)))
        number = count.known
        size = count.array()
        top = None if number is None else number - 1

        def turn(i: Any) -> None:
            self.variables[loop.index.name] = traced(i, 0, top)
            self.block(loop.body)

        if number is not None and not leaves and self.mask is None:
            carried = self._carried(loop, loop.body)

            def step(i: Any, state: Any) -> Any:
                return self._step(carried, lambda: turn(i))(state)

            state = self._first_state(loop, carried, (), lambda state: step(np.int64(0), state))
            state = jax.lax.fori_loop(np.int64(0), np.int64(number), step, state)
            self._take(carried, state)
            self._behind_loop()
            return

        def before(i: Any) -> None:
            self.variables[_GOES] = jnp.less(i, size)

        self._while_loop(loop, loop.body, before, turn)

    def _while(self, loop: While) -> None:
        def before(_: Any) -> None:
            self.block(loop.before)
            self.variables[_GOES] = self.value(loop.condition)

        around, self._in_while = self._in_while, True
        self._while_loop(loop, (*loop.before, *loop.body), before, lambda _: self.block(loop.body))
        self._in_while = around

    def _while_loop(
        self, loop: For | While, inside: Sequence[Statement], before: Callable[[Any], None], turn: Callable[[Any], None]
    ) -> None:
        """Run turns while `before` sets `@goes`, in those lanes where it does and nothing has left the loop."""

        def goes_on(i: Any, goes: Any) -> Any:
            """Return in which of the lanes `goes` the turn with this number runs."""

            def run() -> None:
                before(i)
                self.variables[_GOES] = apply("and", [self.variables[_GOES], _not(self.variables[_LEFT])], BOOL)

            self.variables[_GOES] = np.False_
            self.branch(goes, run)
            return jnp.asarray(self.variables.pop(_GOES))

        def step(i: Any, state: Any) -> Any:
            goes = state[0]
            following = None

            def run() -> None:
                nonlocal following
                turn(i)
                self.variables[_LIVE] = np.True_
                following = goes_on(i + np.int64(1), _not(self.variables[_LEFT]))

            def masked() -> None:
                self.mask = None
                self.branch(goes, run)

            rest = self._step(carried, masked)(state[1:])
            return (goes & following, *rest)

        goes = goes_on(np.int64(0), np.True_ if self.mask is None else self.mask)
        carried = self._carried(loop, inside)
        state = self._first_state(loop, carried, (goes,), lambda state: step(np.int64(0), state))

        def advance(state: Any) -> Any:
            return (state[0] + np.int64(1), *step(state[0], state[1:]))

        state = jax.lax.while_loop(lambda state: state[1].any(), advance, (jnp.asarray(np.int64(0)), *state))
        self._take(carried, state[2:])
        self._behind_loop()

    def _carried(self, loop: For | While, inside: Sequence[Statement]) -> dict[str, ScalarType]:
        """Return the types of the variables that turns assign and that others, or what is outside, may read."""
        assert self._function is not None
        outside = _read_outside(self._function, loop)
        found = dict[str, ScalarType]()
        for each in (variable for one in every(inside) for variable in assigned(one)):
            before = self.variables.get(each.name)
            if isinstance(each.type, PointerType):
                if each.name in outside:
                    raise self.refused(f"have no array {each.name} behind the loop that assigns it")
            elif not isinstance(before, _Unset) and (before is not None or each.name in outside):
                found[each.name] = each.type
        fails = any(isinstance(each, Fail) or self._fails(each) for each in every(inside))
        found |= {_FAILED: BOOL} if fails else {}
        if fails or any(isinstance(each, Leave | Return) for each in every(inside)):
            found |= dict.fromkeys([_LEFT, _RETURNED], BOOL)
            if any(isinstance(each, Return) for each in every(inside)):
                results = enumerate(self._function.results)
                found |= {f"@{place}": type for place, type in results if isinstance(type, ScalarType)}
        return found

    def _fails(self, statement: Statement) -> bool:
        """Return whether a statement calls a function that may raise an error."""
        return isinstance(statement, Invoke) and self.translation.functions[statement.function].function.fails

    def _first_state(
        self,
        loop: For | While,
        carried: Mapping[str, ScalarType],
        more: tuple[Any, ...],
        step: Callable[[Any], Any],
    ) -> Any:
        """Return the state of a loop before its first turn, with the shapes that it has after a turn."""
        values = [self._plain(self.variables.get(name), type) for name, type in carried.items()]
        state = (*map(jnp.asarray, more), *map(jnp.asarray, values), *self.arrays)
        key = id(loop), len(state), *self._at_once_loops
        found = known = self._shapes.get(key)
        while self.lanes:
            if found is not None:
                found = [_joined(x.shape, y) for x, y in zip(state, found, strict=True)]
                state = tuple(map(_broadcast, state, found))
                if found == known:
                    break
            known = [each.shape for each in state]
            with self._kept():
                found = [each.shape for each in jax.eval_shape(step, state)]
        self._shapes[key] = [each.shape for each in state]
        with self._kept():
            return steady(step, state)

    def _step(self, carried: Mapping[str, ScalarType], run: Callable[[], None]) -> Callable[[Any], Any]:
        """Return the function of a state to the next one, which `run` makes of it."""

        def step(state: Any) -> Any:
            with self._kept():
                self._take(carried, state)
                self.variables[_LIVE] = np.True_
                run()
                values = [jnp.asarray(self._plain(self.variables.get(name), type)) for name, type in carried.items()]
                shapes = [_joined(x.shape, y.shape) for x, y in zip(values, state, strict=False)]
                return (*map(_broadcast, values, shapes), *self.arrays)

        return step

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep the variables, the arrays and the mask as they are before the `with` block."""
        before = self.variables, list(self.arrays), self.mask, self._branches
        self.variables = dict(self.variables)
        try:
            yield
        finally:
            self.variables, self.arrays[:], self.mask, self._branches = before

    def _take(self, carried: Mapping[str, ScalarType], state: Sequence[Any]) -> None:
        """Set the variables and the arrays to those of a state."""
        for (name, type), value in zip(carried.items(), state, strict=False):
            self.variables[name] = traced(value) if type == INT64 else value
        self.arrays[:] = state[len(carried) :]

    def _plain(self, value: Value, type: ScalarType) -> Any:
        """Return a scalar as a number or an array."""
        if value is None:
            return np.zeros((), type.dtype)[()]
        return value.array() if isinstance(value, Integer) else value

    def _add_up(self, variable: Variable, term: Expression) -> None:
        """Add the terms of all lanes to a sum."""
        lane, branches = self._sums[variable.name]
        if self._branches != branches or self.lanes[-1] is not lane:
            raise Dependent(lane)
        value = self._plain(self.value(term), BOOL)
        full = _broadcast(value, self._full(value))
        total = self._plain(self.variables[variable.name], BOOL)
        found = apply("add", [total, full.sum(axis=lane.level, dtype=full.dtype)], variable.type)  # type: ignore[arg-type]
        self.variables[variable.name] = traced(found) if variable.type == INT64 else found

    def _full(self, value: Any) -> tuple[int, ...]:
        shape = list(np.shape(value)) + [1] * (len(self.lanes) - np.ndim(value))
        shape[self.lanes[-1].level] = self.lanes[-1].size
        return tuple(shape)

    # --- arrays ---------------------------------------------------------------------------------------------------

    def _element(self, pointer: Expression, index: Expression) -> Place:
        place = self.value(pointer)
        assert isinstance(place, Place)
        return Place(place.array, place.position + self.integer(index))

    def _load(self, place: Place) -> Any:
        array, axes = self.arrays[place.array], by_axes(place.position, self.shapes[place.array])
        self._accesses.append((place.array, False, axes))
        if array.size == 0:
            return np.zeros((), array.dtype)[()]
        elements = None if axes is None else box(axes)
        if elements is not None:
            return elements.read(array)
        return array.reshape(-1).at[place.position.array()].get(mode="clip", wrap_negative_indices=False)

    def _store(self, place: Place, value: Value) -> None:
        array, axes = self.arrays[place.array], by_axes(place.position, self.shapes[place.array])
        self._accesses.append((place.array, True, axes))
        if array.size == 0:
            return
        value = self._plain(value, BOOL)
        own = set(place.position.lanes())
        for lane in reversed(self.lanes):
            if lane not in own:
                raise Dependent(lane)
        if axes is None and self.lanes:
            raise Dependent(self.lanes[-1])
        elements = None if axes is None else box(axes)
        if elements is not None:
            if self.mask is not None:
                value = either(self.mask, value, elements.read(array))
            self.arrays[place.array] = elements.written(array, value)
            return
        position = jnp.asarray(place.position.array())
        if self.mask is not None:
            position = either(self.mask, position, np.int64(array.size))
        position, value = jnp.broadcast_arrays(*aligned(position, value))
        flat = array.reshape(-1).at[position].set(value, mode="drop", wrap_negative_indices=False)
        self.arrays[place.array] = flat.reshape(array.shape)

    # --- expressions ----------------------------------------------------------------------------------------------

    def integer(self, expression: Expression) -> Integer:
        """Return an int64."""
        found = self.value(expression)
        assert isinstance(found, Integer), f"{expression} is no int64"
        return found

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression."""
        match expression:
            case Number(value, type):
                return Integer(int(value)) if type == INT64 else type.dtype.type(value)
            case Variable(name):
                return self._variable(name)
            case Load(pointer, index):
                found = self._load(self._element(pointer, index))
                return traced(found) if expression.type == INT64 else found
            case Offset(pointer, index):
                return self._element(pointer, index)
            case Operation():
                return self._operation(expression)
            case Select(condition, chosen, otherwise):
                return self._select(condition, chosen, otherwise)
            case Conversion(operand, type):
                if isinstance(type, PointerType) or isinstance(operand.type, PointerType):
                    raise self.refused("have no addresses")
                found = self.value(operand)
                if type == INT64:
                    return found if isinstance(found, Integer) else self._as_integer(converted(found, INT64))
                return converted(self._plain(found, BOOL), type)
            case Bits(operand, type):
                found = bits(self._plain(self.value(operand), BOOL), type)
                return self._as_integer(found) if type == INT64 else found
            case _:
                raise self.refused(f"have no {expression.__class__.__name__}")

    def _as_integer(self, value: Any) -> Integer:
        return Integer(int(value)) if isinstance(value, np.generic) else traced(value)

    def _variable(self, name: str) -> Value:
        found = self.variables[name]
        if isinstance(found, _Unset):
            if found.lane in self.lanes:
                raise Dependent(found.lane)
            raise InOrder(found.loop)
        return found

    def _select(self, test: Expression, chosen: Expression, otherwise: Expression) -> Value:
        condition = self.value(test)
        if isinstance(condition, np.bool_):
            return self.value(chosen if condition else otherwise)
        first, second = self.value(chosen), self.value(otherwise)
        found = self._merged(condition, first, second)
        if not isinstance(found, Integer) or found.bounds() is not None:
            return found
        # The smaller or the larger of two integers: one bound may be that of one of them.
        ends = list(zip(first.ends(), second.ends(), strict=True))
        low, high = found.ends()
        if _is(test, "less", chosen, otherwise) or _is(test, "greater", otherwise, chosen):
            high = min((each for each in ends[1] if each is not None), default=None)
        elif _is(test, "greater", chosen, otherwise) or _is(test, "less", otherwise, chosen):
            low = max((each for each in ends[0] if each is not None), default=None)
        return traced(found.array(), low, high)

    def _operation(self, operation: Operation) -> Value:
        name, type = operation.name, operation.type
        found = [self.value(each) for each in operation.operands]
        if any(isinstance(each, Place) for each in found):
            # Asked before a copy within memory that may overlap; that of two arrays does not.
            if found[0].array != found[1].array:
                return np.False_
            found = [each.position for each in found]
        integers = all(isinstance(each, Integer) for each in found)
        if integers and name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            known = _compared(name, found[0] + found[1].times(-1), found)
            if known is not None:
                return known
        if type == INT64 and integers:
            exact = _summed(name, found)
            if exact is not None:
                return exact
        result = apply(name, [self._plain(each, BOOL) for each in found], type)
        if type != INT64:
            return result
        return self._as_integer(result)


def _is(test: Expression, name: str, x: Expression, y: Expression) -> bool:
    return isinstance(test, Operation) and test.name == name and test.operands == (x, y)


def _compared(name: str, difference: Integer, operands: Sequence[Integer]) -> np.bool_ | None:
    """Return the result of a comparison of integers, from the bounds of their difference; None if it is not known."""
    ends = difference.bounds()
    if ends is None or any(each.bounds() is None for each in operands):
        return None
    low, high = ends
    tests = {
        "less": (high < 0, low >= 0), "less_equal": (high <= 0, low > 0), "greater": (low > 0, high <= 0),
        "greater_equal": (low >= 0, high < 0), "equal": (low == high == 0, low > 0 or high < 0),
        "not_equal": (low > 0 or high < 0, low == high == 0),
    }  # fmt: skip
    holds, fails = tests[name]
    return np.True_ if holds else np.False_ if fails else None


def _summed(name: str, x: Sequence[Integer]) -> Integer | None:
    """Return a sum or a multiple of integers; None for other operations."""
    match name:
        case "add" | "step" | "accumulate":
            return x[0] + x[1]
        case "subtract":
            return x[0] + x[1].times(-1)
        case "negative":
            return x[0].times(-1)
        case "multiply" | "stride":
            for one, other in ((x[0], x[1]), (x[1], x[0])):
                if one.known is not None:
                    return other.times(one.known)
    return None


def _zero(type: ScalarType) -> Value:
    return Integer(0) if type == INT64 else type.dtype.type(0)


def _joined(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of both, each with axes of size 1 appended."""
    count = max(len(shape), len(other))
    both = zip(*(each + (1,) * (count - len(each)) for each in (shape, other)), strict=True)
    return tuple(y if x == 1 else x for x, y in both)  # a size that is open in an export has no order


def _broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a value with the axes of all lanes that others differ between."""
    return jnp.broadcast_to(jnp.reshape(value, np.shape(value) + (1,) * (len(shape) - np.ndim(value))), shape)


def _not(condition: Any) -> Any:
    return apply("not", [condition], BOOL)


def _reads(items: Sequence[Any]) -> Counter[str]:
    """Return how often statements and expressions read each variable."""
    found, stack = Counter[str](), list(items)
    while stack:
        each = stack.pop()
        if isinstance(each, Variable):
            found[each.name] += 1
            continue
        if isinstance(each, Invoke):
            stack += each.arguments
            continue
        own = children(each)
        if isinstance(each, Assign):
            own = iter((each.value,))
        elif isinstance(each, For):
            own = iter((each.count, *each.body))
        stack += own
    return found


def _read_outside(function: LoopFunction, loop: For | While) -> set[str]:
    """Return the variables that a function reads outside of a loop."""
    everywhere = _reads(function.body)
    inside = _reads([loop])
    return {name for name, count in everywhere.items() if count > inside[name]}


def _is_sum(name: str, loop: For) -> bool:
    """Return whether all that a loop does with a variable is to add terms to it in its own body."""
    terms = [
        each
        for each in loop.body
        if isinstance(each, Assign) and each.variable.name == name and isinstance(each.value, Operation)
        and each.value.name == "accumulate" and each.value.operands[0] == each.variable
    ]  # fmt: skip
    assignments = sum(variable.name == name for each in every(loop.body) for variable in assigned(each))
    return len(terms) == assignments and _reads(loop.body)[name] == len(terms)
