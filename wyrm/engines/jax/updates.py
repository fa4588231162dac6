"""The optimizer's step as a function of JAX arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.global_norm import GlobalNorm, global_norm
from wyrm.engines.jax.divided_tables import FEW_ROWS, RowExchange, by_marks, by_sorting, summed, written_rows
from wyrm.engines.jax.lower import Lowerer, scope_text
from wyrm.engines.jax.namespace import namespace
from wyrm.engines.optimizer import AVERAGE, GRADIENT_SCALE, OptimizerInterface, UpdateRule
from wyrm.graph.base import BaseNode, label
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.ops.elementwise.formula import formula_value
from wyrm.support.imports import jax, jnp, lax

# With at most so many rows, the touched ones are found by a mark for each row; for a larger table, by sorting the
# indices. On a CPU, the sorts of XLA took half of a step of BPR with 4,096 rows and tables of 1,682.
_MARKED_ROWS = 4
# An array; or the touched rows of a table, each once: see `summed_rows`.
JaxGradient = Any


class TouchedRows(NamedTuple):
    """The gradient of a table as an array of its shape, and which rows have one: others do not move."""

    values: Any
    touched: Any

    @classmethod
    def of_counted(cls, sums: Any, shape: Sequence[int]) -> TouchedRows:
        """Return the gradient of a table of this shape from sums with a last column that is not 0 for touched rows."""
        return cls(sums[:, :-1].reshape(shape), sums[:, -1] != 0)

    def of_rows(self, touched: Any) -> Any:
        """Return elements for each row, of shape (rows,), with the axes of a row after it."""
        return touched.reshape(-1, *[1] * (self.values.ndim - 1))

    def joined(self, more: RowSparse | TouchedRows) -> TouchedRows:
        """Return the sum with another gradient of the table."""
        if isinstance(more, TouchedRows):
            return TouchedRows(self.values + more.values, self.touched | more.touched)
        values: Any = self.values
        values, touched = values.at[more.rows].add(more.values, mode="drop"), self.touched
        return TouchedRows(values, touched.at[more.rows].set(True, mode="drop"))


class _Elementwise(Lowerer):
    """Lowers a rule for arrays of any rank: its single axis, along which it may add up, stands for all elements."""

    def value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node from those of its parents."""
        return formula_value(self.xp, node, operands) if node.formula else self.xp.sum(*operands)


class Updates:
    """The rules of an optimizer's parameters, as pure functions; `exchanges` has the tables that devices divide."""

    def __init__(
        self,
        optimizer: OptimizerInterface,
        parameters: Sequence[Parameter],
        exchanges: Mapping[BaseNode, RowExchange] = MappingProxyType({}),
    ) -> None:
        self._max_norm = optimizer.max_norm
        self._rules: list[UpdateRule] = [optimizer.rule(parameter) for parameter in parameters]
        self._averaging: list[UpdateRule | None] = [optimizer.average_rule(parameter) for parameter in parameters]
        every = [*self._rules, *(rule for rule in self._averaging if rule is not None)]
        self._schedules = {id(rule): Schedule(rule.outputs) for rule in every}
        self.slots: list[list[str]] = [list(optimizer.first_state_of(parameter)) for parameter in parameters]
        self._names = [f"{scope_text(label(parameter))}:update~u{i}" for i, parameter in enumerate(parameters)]
        self._exchanges = [exchanges.get(parameter) for parameter in parameters]

    def __call__(
        self,
        parameters: Sequence[Any],
        gradients: Sequence[JaxGradient],
        states: Sequence[Mapping[str, Any]],
        numbers: Mapping[str, Any],
        moves: Any,
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return the new parameters and states; where `moves` is false, they are the old ones."""
        if self._max_norm is not None:
            numbers = {**numbers, GRADIENT_SCALE: self._scale(gradients, self._max_norm)}
        moved: list[Any] = []
        changed: list[dict[str, Any]] = []
        for name, rule, averaging, exchange, parameter, gradient, state in zip(
            self._names, self._rules, self._averaging, self._exchanges, parameters, gradients, states, strict=True
        ):
            with jax.named_scope(name):
                if isinstance(gradient, RowSparse):
                    arrays = self._rows(exchange, rule, parameter, gradient, state, numbers, moves)
                elif isinstance(gradient, TouchedRows):
                    own = gradient.of_rows(moves & gradient.touched)
                    arrays = self._whole(rule, parameter, gradient.values, state, numbers, own)
                else:
                    arrays = self._whole(rule, parameter, gradient, state, numbers, moves)
                if averaging is not None:
                    arrays += self._whole(averaging, state[AVERAGE], arrays[0], {}, numbers, moves)
            moved.append(arrays[0])
            slots = [*rule.state, *([] if averaging is None else [AVERAGE])]
            changed.append(dict(zip(slots, arrays[1:], strict=True)))
        return moved, changed

    def after(
        self,
        parameters: Sequence[Any],
        gradients: Sequence[JaxGradient],
        states: Sequence[Mapping[str, Any]],
        numbers: Mapping[str, Any],
    ) -> list[list[Any]]:
        """Return what a step computes for each parameter: the new values and states, of a table those of touched rows.

        A table that devices divide has an empty list.
        """
        if self._max_norm is not None:
            numbers = {**numbers, GRADIENT_SCALE: self._scale(gradients, self._max_norm)}
        new: list[list[Any]] = []
        for rule, exchange, parameter, gradient, state in zip(
            self._rules, self._exchanges, parameters, gradients, states, strict=True
        ):
            if isinstance(gradient, TouchedRows):
                found = self._apply(rule, parameter, gradient.values, state, numbers)
                own = gradient.of_rows(gradient.touched)
                new.append([namespace().where(own, array, 0) for array in found])
            elif not isinstance(gradient, RowSparse):
                new.append(self._apply(rule, parameter, gradient, state, numbers))
            elif exchange is None:
                old = [
                    array.at[gradient.rows].get(mode="clip")
                    for array in (parameter, *map(state.__getitem__, rule.state))
                ]
                before = dict(zip(rule.state, old[1:], strict=True))
                new.append(self._apply(rule, old[0], gradient.values, before, numbers))
            else:
                new.append([])
        return new

    def _whole(
        self, rule: UpdateRule, parameter: Any, gradient: Any, state: Mapping[str, Any], numbers: Any, moves: Any
    ) -> list[Any]:
        old = [parameter, *(state[name] for name in rule.state)]
        new = self._apply(rule, parameter, gradient, state, numbers)
        return [namespace().where(moves, after, before) for after, before in zip(new, old, strict=True)]

    def _rows(
        self,
        exchange: RowExchange | None,
        rule: UpdateRule,
        parameter: Any,
        gradient: RowSparse,
        state: Mapping[str, Any],
        numbers: Any,
        moves: Any,
    ) -> list[Any]:
        """Update only the rows of the gradient; where devices divide the table, on those that own them."""

        def moved(old: list[Any], gradient: Any, numbers: Any) -> list[Any]:
            return self._apply(rule, old[0], gradient, dict(zip(rule.state, old[1:], strict=True)), numbers)

        old = [parameter, *(state[name] for name in rule.state)]
        if exchange is None:
            return written_rows(old, gradient.rows, gradient.values, moved, numbers, moves)
        used = {name: numbers[name] for name in rule.hyperparameters}
        return exchange.update(old, gradient, moved, used, moves)

    def _scale(self, gradients: Sequence[JaxGradient], max_norm: float) -> Any:
        """Return the factor that limits the global norm of the gradients, also if their squares overflow."""
        xp: Any = namespace()
        dtype = np.result_type(*(_values(gradient).dtype for gradient in gradients))

        def total(norm: GlobalNorm) -> Any:
            (gradient,), squares = norm.squares.inputs, Schedule(norm.squares.outputs)

            def of(array: Any) -> Any:
                return _Elementwise().run(squares, {gradient: array.astype(dtype)})[0]

            return sum(
                of(_values(given)) if exchange is None else exchange.total(given, of, dtype)
                for exchange, given in zip(self._exchanges, gradients, strict=True)
            )

        def factor(norm: GlobalNorm, total: Any) -> Any:
            known = dict(zip(norm.limited.inputs, (total, xp.asarray(max_norm, dtype=dtype)), strict=True))
            return _Elementwise().outputs(norm.limited.outputs[1:], known)[0]

        plain, in_units = global_norm(dtype), global_norm(dtype, in_units=True)
        found = total(plain)
        return lax.cond(xp.isfinite(found), lambda: factor(plain, found), lambda: factor(in_units, total(in_units)))

    def finite(self, gradients: Sequence[JaxGradient], new: Sequence[Sequence[Any]] = ()) -> Any:
        """Return whether all gradients are finite, and with them all arrays of `new`, a result of `after`.

        Where devices add up their terms of a row later, those must be so small that no sum can overflow.
        """
        with jax.named_scope("gradients:check"):
            found: list[list[Any]] = []
            for exchange, gradient, arrays in zip(
                self._exchanges, gradients, new or [()] * len(gradients), strict=True
            ):
                values = _values(gradient)
                if exchange is not None:
                    values = values * namespace().asarray(exchange.terms, dtype=values.dtype)
                found.append([values, *arrays])
            return all_finite(found)

    def _apply(
        self, rule: UpdateRule, parameter: Any, gradient: Any, state: Mapping[str, Any], numbers: Mapping[str, Any]
    ) -> list[Any]:
        known: dict[BaseNode, Any] = {rule.parameter: parameter, rule.gradient: gradient}
        known |= {rule.state[name]: state[name] for name in rule.state}
        known |= {leaf: numbers[name].astype(parameter.dtype) for name, leaf in rule.hyperparameters.items()}
        lowerer = _Elementwise() if rule.elementwise else Lowerer()
        return [value.astype(parameter.dtype) for value in lowerer.run(self._schedules[id(rule)], known)]


def _values(gradient: JaxGradient) -> Any:
    return gradient.values if isinstance(gradient, RowSparse | TouchedRows) else gradient


def summed_rows(pairs: Sequence[tuple[Any, Any]], shape: tuple[int, ...]) -> RowSparse | TouchedRows:
    """Return the sum of (gradient, indices) pairs of a table: of a small one for all rows, else for the touched ones.

    The touched rows are in ascending order, each once. XLA needs a fixed number of them, as many as there are indices.
    The others are padding: their row number is that after the last row of the table.
    """
    rows = jnp.concatenate([indices.reshape(-1) for _, indices in pairs])
    values = [gradient.reshape(-1, *shape[1:]) for gradient, _ in pairs]
    if shape[0] <= FEW_ROWS * len(rows):
        touched = jnp.zeros(shape[0], bool).at[rows].set(True, mode="drop")
        return TouchedRows(summed(values, rows, shape[0]), touched)
    if shape[0] <= _MARKED_ROWS * len(rows):
        unique, positions = by_marks(rows, shape[0], len(rows))
    else:
        unique, positions = by_sorting(rows, shape[0], len(rows))
    return RowSparse(unique, summed(values, positions, len(rows)), shape)


def all_finite(groups: Iterable[Sequence[Any]]) -> Any:
    """Return whether all arrays are finite; XLA makes one loop of those of a group that have the same shape."""
    xp: Any = namespace()
    result = xp.asarray(True)
    for group in groups:
        # The largest element of all, which is NaN where one is: XLA would reduce a conjunction array by array.
        largest: dict[tuple[int, ...], Any] = {}
        for array in group:
            size = abs(array)
            largest[array.shape] = xp.maximum(largest[array.shape], size) if array.shape in largest else size
        for each in largest.values():
            result = result & xp.all(xp.isfinite(each))
    return result
