"""An optimizer's rule as a loop over the elements of a parameter, or over the rows that a step touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.formulas import formula_steps, number
from wyrm.ir.arrays import (
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
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Input, Parameter
from wyrm.node.node import Node
from wyrm.node.storage import bound_array
from wyrm.schedule.schedule import Schedule


class UpdateRule(Protocol):
    """The graph of an update: `outputs` are the new parameter and the new state, made of the inputs."""

    parameter: Input[Any]
    gradient: Input[Any]
    state: dict[str, Input[Any]]
    hyper: dict[str, Input[Any]]
    outputs: list[Node[Any, Any]]


class OptimizerInterface(Protocol):
    """What a program needs of an optimizer."""

    parameters: list[Parameter[Any]]
    steps: int

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        ...

    @property
    def flushes(self) -> bool:
        """Whether denormal state becomes zero where the gradient is zero."""
        ...

    def rule(self, dtype: np.dtype[Any]) -> Any:
        """The rule for parameters of one float type."""
        ...

    def numbers(self, count: int, parameters: Any) -> dict[str, NDArray[np.float64]]:
        """The numbers of the rule for the next steps of these parameters, `count` of each."""
        ...

    def state_of(self, parameter: Parameter[Any]) -> Mapping[str, NDArray[Any]]:
        """The arrays of a parameter's state."""
        ...

    def advance(self, count: int, parameters: Any) -> None:
        """Count steps that have been done with these parameters; below 0, undone."""
        ...


def update(name: str, rule: UpdateRule, row_axes: int, flushes: bool, row_size: int | None) -> ArrayFunction:
    """The function that moves one parameter: all of it, or with `row_axes` the rows that `rows` and `count` name.

    Its arguments are the parameter, the gradient, the arrays of the state and the numbers of the step, all in the order
    of the rule; then, for rows, `rows` and `count`. Arrays are flat, or with `row_axes` have that many axes, one or
    two; the gradient of rows is set to zero for the next step. `row_size` is how many elements rows of two axes have,
    where the code is to be for those alone.
    """
    row, j, k = Name("row"), Name("j"), Name("k")
    element = [(j,), (row,), (row, j)][row_axes]
    place = [(j,), (k,), (k, j)][row_axes]  # of the gradient
    schedule = Schedule(rule.outputs)
    state, hyper, dtype = list(rule.state), list(rule.hyper), rule.parameter.dtype
    arguments = ["parameter", "gradient", *state, *hyper, *(["rows", "count"] if row_axes else [])]
    arrays = {rule.parameter: "parameter", rule.gradient: "gradient", **{rule.state[key]: key for key in state}}
    values: dict[BaseNode[Any, Any], Expression] = {}
    once: list[Statement] = []
    each: list[Statement] = []
    for key in hyper:
        values[rule.hyper[key]] = Name(f"{key}_")
        once.append(Let(f"{key}_", Element(key, ())))
    for leaf, array in arrays.items():
        values[leaf] = Name(f"{array}_")
        each.append(Let(f"{array}_", Element(array, place if leaf is rule.gradient else element)))
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
    flushed = _flushing(dtype) if flushes and state else None
    if flushed is not None:
        each.append(flushed[0])
    for target, output in zip(["parameter", *state], schedule.outputs, strict=True):
        moved = values[output]
        if flushed is not None and target != "parameter":
            moved = Apply("where", (Apply("less", (Apply("abs", (moved,)), flushed[1])), number(0.0, dtype), moved))
        each.append(Store(target, element, moved))
    if row_axes:
        each.append(Store("gradient", place, Literal(0)))
    return ArrayFunction(name, tuple(arguments), (*once, _loop(each, row_axes, row_size)))


def _attributes(node: BaseNode[Any, Any], dtype: np.dtype[Any]) -> Callable[[str], Expression]:
    return lambda name: number(getattr(node, name), dtype)


def _flushing(dtype: np.dtype[Any]) -> tuple[Let, Name]:
    """The limit below which state becomes zero: the smallest normal number where the gradient is zero, else below zero.

    A condition instead makes the loop of Adam a quarter slower.
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
