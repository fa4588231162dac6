"""An optimizer's rule as a loop over the elements of a parameter, or over the rows that a step touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    CountedLoop,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Statement,
    Store,
)
from wyrm.engines.native.stages.formulas import formula_steps, number
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Input, Parameter
from wyrm.graph.node import Node
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array

# The rules' number that bounds the global norm of the gradients; a program computes it in each step.
GRADIENT_SCALE = "gradient__scale"


class UpdateRule(Protocol):
    """The graph of an update; `outputs` are the new parameter and the new state, computed from the inputs.

    `elementwise` says whether it is one of elements, or else of parameters of one shape. If it `flushes`, denormal
    state becomes zero where the gradient is zero.
    """

    parameter: Input
    gradient: Input
    state: dict[str, Input]
    hyperparameters: dict[str, Input]
    outputs: list[Node]

    @property
    def elementwise(self) -> bool:
        """Whether the graph is about one element."""
        ...

    @property
    def flushes(self) -> bool:
        """Whether denormal state becomes zero."""
        ...


class OptimizerInterface(Protocol):
    """The interface of an optimizer that a program needs."""

    parameters: list[Parameter]
    steps: int

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        ...

    @property
    def average(self) -> object:
        """The average of the parameters that the optimizer keeps, or None."""
        ...

    @property
    def max_norm(self) -> float | None:
        """The largest global norm of the gradients, which the number `GRADIENT_SCALE` of the rules brings about."""
        ...

    def rule(self, parameter: Parameter) -> Any:
        """Return the rule of a parameter, the same for parameters with the same one."""
        ...

    def numbers(self, count: int, parameters: Any) -> dict[str, NDArray[np.float64]]:
        """Return the rules' numbers for the next `count` steps of these parameters."""
        ...

    def average_of(self, parameter: Parameter) -> tuple[str, str] | None:
        """Return the names of a parameter's average in its state and of its weight among the numbers, or None."""
        ...

    def state_of(self, parameter: Parameter) -> Mapping[str, np.ndarray]:
        """Return the arrays of a parameter's state."""
        ...

    def hold_on_device(self, newer: Callable[[], None]) -> None:
        """Declare that the newest state is on a device; `newer` copies it to the host once it is needed there."""
        ...

    def numbers_on_device(self, count: int, parameters: Any) -> dict[str, NDArray[np.float64]]:
        """Return `numbers` for a program that holds the state on a device, and leave it there."""
        ...

    def step_counts(self) -> list[int]:
        """Return the steps of the optimizer, then those of each parameter."""
        ...

    def load_step_counts(self, counts: Sequence[int]) -> None:
        """Go on counting from a result of `step_counts`."""
        ...

    def advance(self, count: int, parameters: Any) -> None:
        """Count finished steps of these parameters; a negative `count` takes steps back."""
        ...


def update(name: str, rule: UpdateRule, row_axes: int, row_size: int | None) -> ArrayFunction:
    """Return the function that updates one parameter: all of it, or with `row_axes` the touched rows.

    Its arguments are the parameter, the gradient, the arrays of the state and the numbers of the step, all in the order
    of the rule; for rows also `rows` and `count`. Arrays are flat, or have `row_axes` axes, which is one or two. The
    gradient of rows is reset to zero for the next step. `row_size` specializes the code for rows of that many elements.
    """
    row, j, k = Name("row"), Name("j"), Name("k")
    element = [(j,), (row,), (row, j)][row_axes]
    gradient_index = [(j,), (k,), (k, j)][row_axes]  # of the gradient
    schedule = Schedule(rule.outputs)
    state, hyperparameters, dtype = list(rule.state), list(rule.hyperparameters), rule.parameter.dtype
    arguments = ["parameter", "gradient", *state, *hyperparameters, *(["rows", "count"] if row_axes else [])]
    arrays = {rule.parameter: "parameter", rule.gradient: "gradient", **{rule.state[key]: key for key in state}}
    values: dict[BaseNode, Expression] = {}
    once: list[Statement] = []
    each: list[Statement] = []
    for key in hyperparameters:
        values[rule.hyperparameters[key]] = Name(f"{key}_")
        once.append(Let(f"{key}_", Element(key, ())))
    for leaf, array in arrays.items():
        values[leaf] = Name(f"{array}_")
        each.append(Let(f"{array}_", Element(array, gradient_index if leaf is rule.gradient else element)))
    used = count()
    for node in schedule.nodes:
        if node in values:
            continue
        if node.is_leaf:
            values[node] = number(bound_array(node).item(), dtype)
            continue
        assert node.formula is not None
        operands = [values[parent] for parent in schedule.parents(node)]
        steps, result = formula_steps(
            node.formula, operands, _attributes(node, dtype), dtype, lambda: f"t{next(used)}"
        )  # fmt: skip
        variable = f"{node.op_name()}_{next(used)}"
        values[node] = Name(variable)
        (each if node.dims else once).extend([*steps, Let(variable, result)])
    flushed = _flushing(dtype) if rule.flushes and not row_axes and state else None
    if flushed is not None:
        each.append(flushed[0])
    for target, output in zip(["parameter", *state], schedule.outputs, strict=True):
        moved = values[output]
        if flushed is not None and target != "parameter":
            moved = Apply("where", (Apply("less", (Apply("abs", (moved,)), flushed[1])), number(0.0, dtype), moved))
        each.append(Store(target, element, moved))
    if row_axes:
        each.append(Store("gradient", gradient_index, Literal(0)))
    return ArrayFunction(name, tuple(arguments), (*once, _loop(each, row_axes, row_size)))


def _attributes(node: BaseNode, dtype: np.dtype) -> Callable[[str], Expression]:
    return lambda name: number(getattr(node, name), dtype)


def _flushing(dtype: np.dtype) -> tuple[Let, Name]:
    """Return the limit below which state becomes zero: the smallest normal number if the gradient is zero, else < 0.

    A branch instead would make the loop of Adam a quarter slower.
    """
    tiny = float(np.finfo(dtype).tiny)
    factor = Apply("multiply", (Apply("abs", (Name("gradient_"),)), number(1.0 / tiny, dtype)))
    return Let("limit__", Apply("subtract", (number(tiny, dtype), factor))), Name("limit__")


def _loop(body: Sequence[Statement], row_axes: int, row_size: int | None) -> CountedLoop:
    if row_axes == 0:
        return CountedLoop("j", ArraySize("parameter", 0), tuple(body))
    row = Let("row", Apply("natural", (Element("rows", (Name("k"),)),)))
    size = ArraySize("gradient", 1) if row_size is None else Literal(row_size)
    inner = tuple(body) if row_axes == 1 else (CountedLoop("j", size, tuple(body)),)
    return CountedLoop("k", Element("count", (Literal(0),)), (row, *inner))
