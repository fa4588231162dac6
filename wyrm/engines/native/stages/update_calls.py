"""The calls that update parameters at the end of a step, by the rules of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.functions import small_size
from wyrm.engines.native.stages.invocations import Argument, FlatArgument, Invocation, WholeArgument, WholeCall
from wyrm.engines.native.stages.loops import ArrayBuffer, RowSums
from wyrm.engines.native.stages.lower import Lowering
from wyrm.engines.native.stages.step_options import average, gradient_scale, squares
from wyrm.engines.native.stages.updates import GRADIENT_SCALE, OptimizerInterface, UpdateRule, update
from wyrm.graph.base import BaseNode, format_dims, label
from wyrm.graph.leaves import Parameter

if TYPE_CHECKING:
    from wyrm.engines.native.stages.source import Source


class UpdateCalls:
    """The calls that update a program's parameters; `rule_source` creates the functions of a rule over whole ones.

    `hyperparameters` are the numbers that each step reads, and `numbers` the arguments that hold them.
    """

    def __init__(
        self, lowering: Lowering, optimizer: OptimizerInterface, rule_source: Callable[[UpdateRule], Source]
    ) -> None:
        self.lowering, self.optimizer, self._rule_source = lowering, optimizer, rule_source
        self.routines: dict[object, ArrayRoutine] = {}
        self.rules: dict[UpdateRule, Source] = {}
        self.hyperparameters: list[str] = []
        self.numbers: dict[str, FlatArgument] = {}

    def update(self, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None = None) -> list[Invocation]:
        """Return the calls that update a parameter and its average."""
        assert isinstance(parameter, Parameter)
        rule: UpdateRule = self.optimizer.rule(parameter)
        move = self._update_elements if rule.elementwise else self._update_whole
        calls = [move(rule, parameter, gradient, rows)]
        names = self.optimizer.average_of(parameter)
        if names is not None:
            key, (state, weight) = ("average", parameter.dtype), names
            if key not in self.routines:
                code = average(self.lowering.name(f"average_{parameter.dtype}"), parameter.dtype)
                self.routines[key] = ArrayRoutine(code, distinct=True)
            arguments = [
                self._flat(self.lowering.leaf(parameter), 1),
                self._state(parameter, state, 1),
                self._number(weight, parameter.dtype),
            ]
            comment = f"the average of {label(parameter)}"
            calls.append(Invocation(self.routines[key], arguments, set(), comment, updated=parameter))
        return calls

    def _update_elements(
        self, rule: UpdateRule, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None
    ) -> Invocation:
        row_axes = 0 if rows is None else min(2, len(parameter.dims))
        kind = ["all", "elements", "rows"][row_axes]
        row_size = small_size(parameter.dims[1:]) if row_axes == 2 else None
        key = rule, kind, row_size
        if key not in self.routines:
            name = self.lowering.name(f"update_{kind}_{parameter.dtype}")
            self.routines[key] = ArrayRoutine(update(name, rule, row_axes, row_size), distinct=True)
        axes, buffer = max(1, row_axes), self.lowering.leaf(parameter)
        arguments: list[Argument] = [self._flat(buffer, axes), self._flat(gradient, axes)]
        arguments += [self._state(parameter, state, axes) for state in rule.state]
        arguments += [self._number(number, parameter.dtype) for number in rule.hyperparameters]
        if rows is not None:
            arguments += [rows.rows, rows.count]
        comment = f"{buffer.name} {format_dims(parameter.dims)}"
        return Invocation(self.routines[key], arguments, {gradient}, comment, updated=parameter)

    def _update_whole(
        self, rule: UpdateRule, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None
    ) -> Invocation:
        assert rows is None, "a rule over whole parameters has dense gradients"
        if rule not in self.rules:
            self.rules[rule] = self._rule_source(rule)
        source, buffer = self.rules[rule], self.lowering.leaf(parameter)
        given: dict[BaseNode, FlatArgument] = {
            rule.parameter: self._flat(buffer, 1),
            rule.gradient: self._flat(gradient, 1),
        }
        given |= {leaf: self._state(parameter, state, 1) for state, leaf in rule.state.items()}
        given |= {leaf: self._number(number, parameter.dtype) for number, leaf in rule.hyperparameters.items()}
        call = WholeCall(source, given)
        arguments = [
            WholeArgument(self.lowering.name(f"{buffer.name}_update_{i}"), call, i) for i in range(source.count)
        ]
        comment = f"{buffer.name} {format_dims(parameter.dims)}"
        return Invocation(source.run, arguments, {gradient}, comment, updated=parameter)

    def scale(self, max_norm: float) -> list[Invocation]:
        """Return the calls that compute the factor by which the rules scale all gradients."""
        calls: list[Invocation] = []
        total = self._scalar("squares__sum", np.dtype(np.float64))
        given = [(buffer, parameter.dims, None) for parameter, buffer in self.lowering.gradients.items()]
        for gradient, dims, rows in [*given, *((r.sums, r.parameter.dims, r) for r in self.lowering.rows)]:
            row_axes = 0 if rows is None else min(2, len(dims))
            key = "squares", gradient.dtype, row_axes, not calls
            if key not in self.routines:
                code = squares(self.lowering.name(f"squares_{gradient.dtype}"), row_axes, not calls)
                self.routines[key] = ArrayRoutine(code, distinct=True)
            arguments: list[Argument] = [self._flat(gradient, max(1, row_axes)), total]
            arguments += [] if rows is None else [rows.count]
            calls.append(Invocation(self.routines[key], arguments, {gradient}, gradient.name))
        for dtype in {gradient.dtype: None for invocation in calls for gradient in invocation.buffers}:
            name = self.lowering.name(f"{GRADIENT_SCALE}_{dtype}")
            routine = self.routines[name] = ArrayRoutine(gradient_scale(name, max_norm, dtype), distinct=True)
            calls.append(Invocation(routine, [total, self._number(GRADIENT_SCALE, dtype)], set()))
        return calls

    def _flat(self, buffer: ArrayBuffer, axes: int) -> FlatArgument:
        return FlatArgument(self.lowering.name(f"flat_{buffer.name}"), buffer, axes)

    def _state(self, parameter: BaseNode, state: str, axes: int) -> FlatArgument:
        name = self.lowering.name(f"{state}_of_{self.lowering.leaf(parameter).name}")
        return FlatArgument(name, None, axes, state=(parameter, state))

    def _number(self, number: str, dtype: np.dtype) -> FlatArgument:
        """Return a number of the rules; each step reads it from `hyperparameters`, or computes it."""
        if number != GRADIENT_SCALE and number not in self.hyperparameters:
            self.hyperparameters.append(number)
        return self._scalar(number, dtype)

    def _scalar(self, number: str, dtype: np.dtype) -> FlatArgument:
        name = f"{number}_{dtype}"
        return self.numbers.setdefault(name, FlatArgument(name, None, 0, number=number, dtype=dtype))
